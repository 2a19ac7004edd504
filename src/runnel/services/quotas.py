"""Client quotas on this broker: the quotas of the cluster's image in force, and the clocks that they are measured by.

In: images, clients and addresses by name. Out: sensors, and for how long a new connection is kept waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from runnel.core.configs import BrokerConfigView
from runnel.core.metadata import ClusterImage
from runnel.core.quotas import ClientSensors, QuotaBook, Window

USER_PREFIX = "User:"


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class QuotaService:
    """``limits_clients`` is what a request costs where there are no quotas: one look at it."""

    def __init__(
        self,
        configs: BrokerConfigView,
        now_ms: Callable[[], int] = monotonic_ms,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._book = QuotaBook(_window(configs, "quota.window"), _window(configs, "controller.quota.window"))
        self._quotas: Mapping[Any, Any] = {}
        self.limits_clients = False
        self.now_ms = now_ms
        self.now_ns = now_ns

    def follow(self, image: ClusterImage) -> None:
        """Take over the quotas of a new image; they hold from the next request on."""
        if image.client_quotas is not self._quotas:
            self._quotas = image.client_quotas
            self._book.replace(image.client_quotas)
            self.limits_clients = self._book.limits_clients

    def client(self, principal: str, client_id: str | None, now_ms: int) -> ClientSensors:
        return self._book.client(principal.removeprefix(USER_PREFIX), client_id or "", now_ms)

    def connection_delay_ms(self, host: str) -> int:
        """For how long a connection that has just come from this address must wait: 0 where it may be served."""
        if not self._book.limits_addresses:
            return 0
        now_ms = self.now_ms()
        sensor = self._book.address(host, now_ms)
        if sensor is None:
            return 0
        delay_ms = sensor.record(1, now_ms)
        if delay_ms:
            sensor.record_unchecked(-1, now_ms)  # it is not served, so it does not count
        return delay_ms


def _window(configs: BrokerConfigView, name: str) -> Window:
    return Window(configs[f"{name}.num"], configs[f"{name}.size.seconds"] * 1000)
