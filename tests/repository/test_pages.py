"""Pages that are made from tables are the tables' truth."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_configuration_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("configuration_page", ROOT / "tools" / "configuration_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text() == module.page(), "run `make docs`"
