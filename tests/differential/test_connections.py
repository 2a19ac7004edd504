"""What each broker does with frames that are no proper request: answers, hangs up, or waits."""

from __future__ import annotations

import struct

import pytest

from differential.both import Both
from differential.sides import SILENCE_SECONDS, Side
from differential.versions import SERVED
from harness.raw import Closed
from runnel.wire.apis import KAFKA_RANGES
from runnel.wire.frames import encode_request_header
from runnel.wire.messages import decode_response, encode_request

pytestmark = pytest.mark.java

API_VERSIONS, METADATA, HEARTBEAT = 18, 3, 12
UNKNOWN_KEYS = (93, 999, -1, 32767)
INTERNAL_KEYS = (4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82)


def outcome(side: Side, data: bytes) -> str:
    """What comes of these bytes on a connection of their own: a reply's first bytes, or what came instead."""
    side.hang_up("odd")
    raw = side.connection("odd")
    raw.socket.settimeout(SILENCE_SECONDS)
    try:
        raw.socket.sendall(data)
        reply = raw.receive()
    except (Closed, ConnectionError):
        return "closed"
    except TimeoutError:
        return "silent"
    finally:
        side.hang_up("odd")
    return f"answered, correlation id {struct.unpack_from('>i', reply)[0]}"


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize("key", SERVED)
def test_versions_that_are_not_served(both: Both, key: int) -> None:
    low, high = KAFKA_RANGES[key]
    for version in {high + 1, 99, -1, low - 1, 32767} - {low, high}:
        data = frame(encode_request_header(key, version, 7, "odd") + b"\0" * 20)
        assert outcome(both.runnel, data) == outcome(both.kafka, data), version


def test_unknown_apis(both: Both) -> None:
    for key in UNKNOWN_KEYS + INTERNAL_KEYS:
        for version in (0, 1, 99):
            data = frame(encode_request_header(key, version, 7, "odd", header_version=1) + b"\0" * 20)
            assert outcome(both.runnel, data) == outcome(both.kafka, data), (key, version)


def test_an_unknown_version_of_api_versions_is_told_the_ranges(both: Both) -> None:
    replies = []
    for side in both.sides:
        raw = side.connection("odd")
        raw.send_bytes(encode_request_header(API_VERSIONS, 99, 5, "odd", header_version=2) + b"\2a\2b\0")
        replies.append(decode_response(API_VERSIONS, 0, raw.receive(), 4).to_dict())
        side.hang_up("odd")
    kafka, runnel = replies
    assert kafka["error_code"] == runnel["error_code"] == 35
    # Kafka names only ApiVersions itself here; we name everything.
    assert kafka["api_keys"] == [row for row in runnel["api_keys"] if row["api_key"] == API_VERSIONS]


def metadata(version: int = 12, client_id: str | None = "odd") -> bytes:
    return encode_request_header(METADATA, version, 7, client_id) + encode_request(METADATA, version, {"topics": []})


JUNK = {
    "nothing": frame(b""),
    "one byte": frame(b"\0"),
    "a header cut short": frame(metadata()[:6]),
    "only the fixed part": frame(metadata()[:8]),
    "a body cut short": frame(metadata()[:-3]),
    "bytes too many": frame(metadata() + b"\1\2\3"),
    "bytes too many, old version": frame(metadata(1) + b"\1\2\3"),
    "no client id": frame(metadata(client_id=None)),
    "an empty client id": frame(metadata(client_id="")),
    "a client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 7, 30_000)),
    "a client id of length -2": frame(struct.pack(">hhih", METADATA, 1, 7, -2) + b"\0\0\0\0"),
    "a client id that is not UTF-8": frame(struct.pack(">hhih", METADATA, 1, 7, 2) + b"\xff\xfe" + b"\0\0\0\0"),
    "a negative size": struct.pack(">i", -1),
    "a size of 2 GiB": struct.pack(">i", 2**31 - 1) + b"\0" * 100,
    "an array of -2": frame(encode_request_header(METADATA, 1, 7, "odd") + struct.pack(">i", -2)),
    "an array longer than the frame": frame(encode_request_header(METADATA, 1, 7, "odd") + struct.pack(">i", 2**30)),
    "a compact array longer than the frame": frame(
        encode_request_header(METADATA, 12, 7, "odd") + b"\xff\xff\xff\xff\x0f"
    ),
    "an unknown tagged field in the header": frame(
        encode_request_header(METADATA, 12, 7, "odd")[:-1]
        + b"\1\x63\2ab"
        + encode_request(METADATA, 12, {"topics": []})
    ),
    "an unknown tagged field in the body": frame(metadata()[:-1] + b"\1\x63\2ab"),
    "a null where there is none": frame(encode_request_header(HEARTBEAT, 0, 7, "odd") + b"\xff\xff" + b"\0" * 20),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100fa010000f6030300000000") + b"\0" * 300,
}
# What we do otherwise, Kafka's outcome first.
ON_PURPOSE = {
    "a client id that is not UTF-8": (
        "answered, correlation id 7",
        "closed",
        "Kafka replaces what it cannot read; quotas and logs would then know the client by another name",
    ),
    "an array of -2": (
        "answered, correlation id 7",
        "closed",
        "Kafka takes any negative length for null",
    ),
}


@pytest.mark.parametrize("name", JUNK)
def test_junk(both: Both, name: str) -> None:
    kafka, runnel = outcome(both.kafka, JUNK[name]), outcome(both.runnel, JUNK[name])
    if name in ON_PURPOSE:
        assert (kafka, runnel) == ON_PURPOSE[name][:2], ON_PURPOSE[name][2]
    else:
        assert runnel == kafka


def test_requests_in_one_go_are_answered_in_order(both: Both) -> None:
    for side in both.sides:
        raw = side.connection("odd")
        body = encode_request(METADATA, 12, {"topics": []})
        raw.socket.sendall(b"".join(frame(encode_request_header(METADATA, 12, n, "odd") + body) for n in range(50)))
        assert [struct.unpack_from(">i", raw.receive())[0] for _ in range(50)] == list(range(50)), side
        side.hang_up("odd")
