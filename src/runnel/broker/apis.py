"""The table of what is served: every handler module of ``handlers/``, found by its name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from runnel.broker import handlers
from runnel.broker.router import Api


def _api(module_name: str) -> Api:
    api: Api = import_module(f"{handlers.__name__}.{module_name}").API
    return api


APIS: tuple[Api, ...] = tuple(
    _api(module.name)
    for module in sorted(iter_modules(handlers.__path__), key=lambda m: m.name)
    if module.name[0] == "k"
)
