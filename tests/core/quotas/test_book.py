"""Who is measured together, that changes hold at once, and that what is remembered is bounded."""

from __future__ import annotations

import pytest

from runnel.core.quotas import UNLIMITED, QuotaBook, Window
from runnel.core.quotas.book import CLIENTS_MAX
from runnel.core.quotas.sensors import EVICTED_AT_ONCE, IDLE_MS_MAX, SENSORS_MAX
from runnel.core.quotas.tables import AddressTable, Entity, plain_address

WINDOW = Window(11, 1000)
NOW_MS = 50_000
PRODUCE = "producer_byte_rate"
CONNECTION = "connection_creation_rate"

ANONYMOUS: Entity = (("user", "ANONYMOUS"),)
ANY_USER: Entity = (("user", None),)
ANY_CLIENT: Entity = (("client-id", None),)
ONE_CLIENT: Entity = (("client-id", "c1"),)


@pytest.fixture
def book() -> QuotaBook:
    return QuotaBook(WINDOW, WINDOW)


def test_without_quotas_nobody_is_measured(book: QuotaBook) -> None:
    assert not book.limits_clients
    assert not book.limits_addresses
    assert book.client("ANONYMOUS", "c1", NOW_MS) is UNLIMITED
    assert book.address("10.0.0.1", NOW_MS) is None


def test_a_user_quota_is_shared_by_all_its_clients_and_a_client_quota_by_all_users(book: QuotaBook) -> None:
    book.replace({ANY_USER: {PRODUCE: 10.0}})
    assert book.client("ann", "c1", NOW_MS).produce is book.client("ann", "c2", NOW_MS).produce
    assert book.client("ann", "c1", NOW_MS).produce is not book.client("bob", "c1", NOW_MS).produce
    book.replace({ANY_CLIENT: {PRODUCE: 10.0}})
    assert book.client("ann", "c1", NOW_MS).produce is book.client("bob", "c1", NOW_MS).produce
    assert book.client("ann", "c1", NOW_MS).produce is not book.client("ann", "c2", NOW_MS).produce


def test_a_quota_limits_only_what_its_key_says(book: QuotaBook) -> None:
    book.replace({ONE_CLIENT: {"request_percentage": 5.0}, ANONYMOUS: {"consumer_byte_rate": 7.0}})
    sensors = book.client("ANONYMOUS", "c1", NOW_MS)
    assert sensors.produce is None
    assert sensors.mutation is None
    assert sensors.request is not None
    assert sensors.fetch is not None
    assert (sensors.request.limit, sensors.fetch.limit) == (5.0, 7.0)
    assert book.client("ann", "c2", NOW_MS) is UNLIMITED


def test_a_change_holds_at_once_and_counts_what_was_measured_before(book: QuotaBook) -> None:
    book.replace({ONE_CLIENT: {PRODUCE: 1000.0}})
    sensor = book.client("ann", "c1", NOW_MS).produce
    assert sensor is not None
    assert sensor.record(5000, NOW_MS) == 0
    book.replace({ONE_CLIENT: {PRODUCE: 100.0}})
    changed = book.client("ann", "c1", NOW_MS).produce
    assert changed is sensor
    assert changed.record(0, NOW_MS) == 40_000


def test_a_removed_quota_leaves_nothing_behind(book: QuotaBook) -> None:
    book.replace({ONE_CLIENT: {PRODUCE: 1.0}})
    sensor = book.client("ann", "c1", NOW_MS).produce
    assert sensor is not None
    assert sensor.record(5000, NOW_MS) > 0
    book.replace({})
    assert book.sensor_count == 0
    book.replace({ONE_CLIENT: {PRODUCE: 1.0}})
    again = book.client("ann", "c1", NOW_MS).produce
    assert again is not None
    assert again.record(0, NOW_MS) == 0


def test_sensors_are_bounded_and_the_longest_idle_go_first(book: QuotaBook) -> None:
    book.replace({ANY_CLIENT: {PRODUCE: 1.0}})
    busy = book.client("ann", "busy", NOW_MS).produce
    assert busy is not None
    for number in range(SENSORS_MAX - 1):
        book.client("ann", f"c{number}", NOW_MS + 1)
    assert book.sensor_count == SENSORS_MAX
    busy.record(100, NOW_MS + 2)
    book.client("ann", "one-more", NOW_MS + 3)
    assert book.sensor_count == SENSORS_MAX - EVICTED_AT_ONCE + 1
    assert book.client("ann", "busy", NOW_MS + 3).produce is busy


def test_what_is_remembered_of_clients_without_quota_is_bounded_too(book: QuotaBook) -> None:
    book.replace({ONE_CLIENT: {PRODUCE: 1.0}})
    sensor = book.client("ann", "c1", NOW_MS).produce
    for number in range(2 * CLIENTS_MAX):
        assert book.client("ann", f"other-{number}", NOW_MS) is UNLIMITED
    assert len(book._clients) <= CLIENTS_MAX
    assert book.client("ann", "c1", NOW_MS).produce is sensor


def test_an_idle_sensor_expires(book: QuotaBook) -> None:
    book.replace({ANY_CLIENT: {PRODUCE: 1.0}})
    book.client("ann", "idle", NOW_MS)
    busy = book.client("ann", "busy", NOW_MS).produce
    assert busy is not None
    busy.record(1, NOW_MS + IDLE_MS_MAX)
    book.client("ann", "newcomer", NOW_MS + IDLE_MS_MAX)
    assert book.sensor_count == 2
    assert book.client("ann", "busy", NOW_MS + IDLE_MS_MAX).produce is busy


def test_addresses_have_their_own_limit_or_the_default(book: QuotaBook) -> None:
    book.replace({(("ip", "10.0.0.1"),): {CONNECTION: 5.0}, (("ip", None),): {CONNECTION: 2.0}})
    assert book.limits_addresses
    assert not book.limits_clients
    own, other = book.address("10.0.0.1", NOW_MS), book.address("10.0.0.2", NOW_MS)
    assert own is not None
    assert other is not None
    assert (own.limit, other.limit) == (5.0, 2.0)
    assert [own.record(1, NOW_MS) for _ in range(51)][-1] == 200  # the 51st within a window of 10 s
    assert other.record(1, NOW_MS) == 0
    assert own.record(1000, NOW_MS) == WINDOW.sample_ms  # never longer than a sample


def test_an_address_is_known_by_any_spelling() -> None:
    table = AddressTable({(("ip", "2001:DB8:0:0:0:0:0:1"),): {CONNECTION: 3.0}}, CONNECTION)
    assert table.find(plain_address("2001:db8::1")) == 3.0
    assert plain_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert plain_address("fe80::1%eth0") == "fe80::1"
    assert plain_address("unknown") == "unknown"
