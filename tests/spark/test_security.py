"""TLS and SASL: logins at Apache Kafka, which checks them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.client.errors import ClientError
from runnel.client.security import check
from spark.records import numbered, produce, read_admin, read_batch, values

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[dict[str, str]]:
    """The addresses of an Apache Kafka's listeners, by security protocol."""
    from benchmarks.kafka_jars import KafkaUnavailable
    from benchmarks.peers import free_port

    from spark.secured_kafka import SecuredKafka

    ports = {name: free_port() for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")}
    try:
        kafka = SecuredKafka(ports, certificate)
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("kafka")
    kafka.prepare(folder)
    with kafka.start(folder) as broker:
        broker.wait_until_answering()
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def login(protocol: str, mechanism: str, certificate: Path, password: str) -> dict[str, str]:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    options = {"kafka.security.protocol": protocol}
    if "SASL" in protocol:
        options["kafka.sasl.mechanism"] = mechanism
        options["kafka.sasl.jaas.config"] = f'{module} required username="alice" password="{password}";'
    if "SSL" in protocol:
        options["kafka.ssl.truststore.location"] = str(certificate)
        options["kafka.ssl.truststore.type"] = "PEM"
    return options


WAYS = [
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ("SSL", ""),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


def ends(bootstrap: str, options: dict[str, str]) -> set[tuple[object, object, object]]:
    """Every partition and its end, as `runnel-admin` has them."""
    rows = read_admin(bootstrap, "partitions", **options)
    return {(row["topic"], row["partition"], row["end_offset"]) for row in rows}


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_reading_through_every_door(
    listeners: dict[str, str], certificate: Path, protocol: str, mechanism: str
) -> None:
    topic = f"t-{protocol}-{mechanism}".lower()
    produce(listeners["PLAINTEXT"], topic, numbered(5))
    options: dict[str, Any] = login(protocol, mechanism, certificate, "secret")
    assert values(read_batch(listeners[protocol], subscribe=topic, **options)) == [b"0", b"1", b"2", b"3", b"4"]
    assert (topic, 0, 5) in ends(listeners[protocol], options)
    if mechanism:
        options = login(protocol, mechanism, certificate, "wrong")
        with pytest.raises(ClientError, match=r"authentication at .* [Aa]uthentication failed"):
            ends(listeners[protocol], options)
        with pytest.raises(ClientError, match=r"authentication at .* [Aa]uthentication failed"):
            read_batch(listeners[protocol], subscribe=topic, **options)


@pytest.mark.slow
@pytest.mark.java
def test_the_wrong_door(listeners: dict[str, str], certificate: Path) -> None:
    patience = {"kafka.default.api.timeout.ms": "500", "fetchOffset.numRetries": "1", "subscribe": "t"}
    tls = login("SSL", "", certificate, "")
    with pytest.raises(ClientError, match=r"no TLS with .*plaintext listener\? kafka.security.protocol"):
        read_batch(listeners["PLAINTEXT"], **patience, **tls)
    with pytest.raises(ClientError, match=r"no TLS with .*plaintext listener\? kafka.security.protocol"):
        ends(listeners["PLAINTEXT"], {**tls, "kafka.request.timeout.ms": "500"})
    stranger = {"kafka.security.protocol": "SSL", **patience}
    with pytest.raises(ClientError, match=r"certificate verify failed.* kafka.ssl.truststore.location"):
        read_batch(listeners["SSL"], **stranger)
    with pytest.raises(ClientError, match="certificate verify failed"):
        ends(listeners["SSL"], {"kafka.security.protocol": "SSL"})
    for protocol in ("SSL", "SASL_PLAINTEXT"):
        with pytest.raises(ClientError, match=r"set kafka.security.protocol"):
            read_batch(listeners[protocol], **patience)
        with pytest.raises(ClientError, match=r"set kafka.security.protocol"):
            ends(listeners[protocol], {"kafka.request.timeout.ms": "500"})


def test_a_key_that_is_encrypted_is_never_asked_about_at_the_terminal(certificate: Path, tmp_path: Path) -> None:
    key, both = tmp_path / "key.pem", tmp_path / "both.pem"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(certificate), "-out", str(key), "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    settings = {"security.protocol": "SSL", "ssl.keystore.location": str(both), "ssl.keystore.type": "PEM"}
    check({**settings, "ssl.key.password": "secret"})
    with pytest.raises(ClientError, match=r"both.pem\) does not load: .*kafka.ssl.key.password must be right"):
        check(settings)
    with pytest.raises(ClientError, match=r"kafka.ssl.key.password must be right"):
        check({**settings, "ssl.key.password": "wrong"})
