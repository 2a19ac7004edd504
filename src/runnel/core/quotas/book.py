"""The quotas in force: who is measured, on which sensor, against which limit.

In: the quotas of the cluster's image, clients and addresses by name, the time. Out: sensors. Only who has a limit is
measured; a client's sensors are looked up once and remembered until the quotas change.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from runnel.core.quotas.rates import Window
from runnel.core.quotas.sensors import MutationSensor, RateSensor, Sensors
from runnel.core.quotas.tables import AddressTable, ClientTable, Quotas, plain_address

CLIENTS_MAX = 10_000


class QuotaKey(Enum):
    """What can be limited."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


class ClientSensors(NamedTuple):
    """What to measure of one client; None where it has no limit."""

    produce: RateSensor | None = None
    fetch: RateSensor | None = None
    request: RateSensor | None = None
    mutation: MutationSensor | None = None


UNLIMITED = ClientSensors()


class QuotaBook:
    """``limits_clients`` and ``limits_addresses`` say whether there is any quota to ask for."""

    def __init__(self, window: Window, mutation_window: Window) -> None:
        self._clients: dict[tuple[str, str], ClientSensors] = {}
        forget = self._clients.clear

        def patient(limit: float, now_ms: int) -> RateSensor:
            return RateSensor(window, limit, now_ms)

        def hasty(limit: float, now_ms: int) -> RateSensor:
            """Throttles for one sample's length at most, as Kafka does where it measures time or connections."""
            return RateSensor(window, limit, now_ms, window.sample_ms)

        def bucket(limit: float, now_ms: int) -> MutationSensor:
            return MutationSensor(mutation_window, limit, now_ms)

        self._produce = Sensors(patient, forget)
        self._fetch = Sensors(patient, forget)
        self._request = Sensors(hasty, forget)
        self._mutation = Sensors(bucket, forget)
        self._connection = Sensors(hasty, forget)
        self._every: tuple[Sensors[Any], ...] = (
            self._produce,
            self._fetch,
            self._request,
            self._mutation,
            self._connection,
        )
        self.replace({})

    def replace(self, quotas: Quotas) -> None:
        """Take over new quotas. What was measured so far counts against the new limits."""
        self._clients.clear()
        self._tables = {key: ClientTable(quotas, key.value) for key in QuotaKey}
        self._addresses = AddressTable(quotas, QuotaKey.CONNECTION.value)
        self.limits_clients = any(self._tables.values())
        self.limits_addresses = bool(self._addresses)
        if not self.limits_clients and not self.limits_addresses:
            for sensors in self._every:
                sensors.clear()

    def client(self, user: str, client_id: str, now_ms: int) -> ClientSensors:
        """The sensors of a client; UNLIMITED where no quota holds for it."""
        known = self._clients.get((user, client_id))
        if known is not None:
            return known
        if len(self._clients) >= CLIENTS_MAX:
            self._clients.clear()
        produce = self._tables[QuotaKey.PRODUCE].find(user, client_id)
        fetch = self._tables[QuotaKey.FETCH].find(user, client_id)
        request = self._tables[QuotaKey.REQUEST].find(user, client_id)
        mutation = self._tables[QuotaKey.MUTATION].find(user, client_id)
        sensors = ClientSensors(
            self._produce.get(*produce, now_ms) if produce else None,
            self._fetch.get(*fetch, now_ms) if fetch else None,
            self._request.get(*request, now_ms) if request else None,
            self._mutation.get(*mutation, now_ms) if mutation else None,
        )
        self._clients[user, client_id] = sensors if any(sensors) else UNLIMITED
        return self._clients[user, client_id]

    def address(self, host: str, now_ms: int) -> RateSensor | None:
        """The sensor of new connections from an address; None where it has no limit."""
        address = plain_address(host)
        limit = self._addresses.find(address)
        return None if limit is None else self._connection.get(address, limit, now_ms)

    @property
    def sensor_count(self) -> int:
        return sum(len(sensors) for sensors in self._every)
