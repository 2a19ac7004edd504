"""TLS and SASL as Kafka's clients are configured for them: the messages by the book, and what is refused."""

from __future__ import annotations

import pytest

from runnel.client.errors import ClientError
from runnel.client.scram import ITERATIONS_MIN
from runnel.client.security import _scram, check, credentials

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_scram_as_in_rfc_7677() -> None:
    talk = _scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(talk) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert talk.send(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        talk.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        ([b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"], "nonce does not continue ours"),
        ([b"r=mineandtheirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", b"v=AAAA"], "signature is wrong"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_not_believed(replies: list[bytes], complaint: str) -> None:
    talk = _scram("sha256", "user", "pencil", "mine")
    next(talk)
    for reply in replies[:-1]:
        talk.send(reply)
    with pytest.raises(ValueError, match=complaint):
        talk.send(replies[-1])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'{PLAIN_MODULE} required username="me" password="a \\"b\\" ;c";', ("me", 'a "b" ;c')),
        (f"{SCRAM_MODULE} required  password='p' username = me ;", ("me", "p")),
    ],
)
def test_credentials_are_read_from_the_line_of_jaas(line: str, expected: tuple[str, str]) -> None:
    assert credentials({"sasl.jaas.config": line}) == expected


REFUSED = [
    ({"security.protocol": "KERBEROS"}, "write one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI: this client has PLAIN, SCRAM"),
    ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config must name a user"),
    ({"security.protocol": "SSL", "ssl.truststore.location": "/x.jks"}, "set kafka.ssl.truststore.type to PEM"),
    (
        {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem", "ssl.truststore.type": "PEM"},
        r"ssl.truststore.location \(/nowhere.pem\) does not load",
    ),
    ({"security.protocol": "SSL", "ssl.truststore.certificates": "Zertifikat für uns"}, "certificates does not load"),
    ({"security.protocol": "SSL", "ssl.keystore.key": "k"}, "name it in kafka.ssl.keystore.location"),
    ({"security.protocol": "SSL", "ssl.keystore.certificate.chain": "c"}, "name it in kafka.ssl.keystore.location"),
]


@pytest.mark.parametrize(("settings", "complaint"), REFUSED)
def test_refused(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ClientError, match=complaint):
        check(settings)


@pytest.mark.parametrize("rounds", ["1", str(ITERATIONS_MIN - 1), "99999999999999999999", "-5", "many", ""])
def test_a_broker_that_wants_too_few_or_too_many_iterations_is_refused(rounds: str) -> None:
    talk = _scram("sha256", "user", "pencil", "mine")
    next(talk)
    with pytest.raises(ValueError, match="4096 to 1000000: set the user's password anew"):
        talk.send(f"r=mineandtheirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i={rounds}".encode())
