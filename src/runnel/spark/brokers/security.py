"""TLS and SASL as Kafka's clients are configured for them: `kafka.security.protocol`, `kafka.ssl.*`, `kafka.sasl.*`.

In: settings by Kafka's names. Out: a TLS context, and the messages of PLAIN and SCRAM. Keys and certificates are PEM
files: Java's keystores are for Java.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import ssl
from collections.abc import Generator, Mapping

from runnel.spark.errors import OptionError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *SCRAM_HASHES)
PEM_CURE = "name a PEM file and set kafka.{kind}.type to PEM (keytool and openssl convert Java's keystores)"
_NONCE_BYTES = 24
_JAAS_PAIR = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")


def protocol(settings: Mapping[str, str]) -> str:
    name = settings.get("security.protocol", "PLAINTEXT").upper()
    if name not in PROTOCOLS:
        raise OptionError(f"option kafka.security.protocol is {name}: write one of {', '.join(PROTOCOLS)}")
    return name


def check(settings: Mapping[str, str]) -> None:
    """Complain on the driver about what every executor would else complain about."""
    name = protocol(settings)
    if name.endswith("SSL"):
        tls_context(settings)
    if name.startswith("SASL"):
        mechanism(settings)
        credentials(settings)


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    if not protocol(settings).endswith("SSL"):
        return None
    _require_pem(settings, "ssl.truststore")
    _require_pem(settings, "ssl.keystore")
    try:
        context = ssl.create_default_context(
            cafile=settings.get("ssl.truststore.location"), cadata=settings.get("ssl.truststore.certificates")
        )
        if keystore := settings.get("ssl.keystore.location"):
            context.load_cert_chain(keystore, password=settings.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"the files of kafka.ssl.truststore and kafka.ssl.keystore do not load: {error}") from error
    if settings.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    return context


def _require_pem(settings: Mapping[str, str], kind: str) -> None:
    if f"{kind}.location" in settings and settings.get(f"{kind}.type", "JKS").upper() != "PEM":
        raise OptionError(f"option kafka.{kind}.location: {PEM_CURE.format(kind=kind)}")


def mechanism(settings: Mapping[str, str]) -> str:
    name = settings.get("sasl.mechanism", "GSSAPI").upper()
    if name not in MECHANISMS:
        raise OptionError(f"option kafka.sasl.mechanism is {name}: this client has {', '.join(MECHANISMS)}")
    return name


def credentials(settings: Mapping[str, str]) -> tuple[str, str]:
    """User name and password out of the line of JAAS that Kafka's clients take."""
    pairs = {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
        for name, value in _JAAS_PAIR.findall(settings.get("sasl.jaas.config", ""))
    }
    if "username" not in pairs or "password" not in pairs:
        raise OptionError(
            "option kafka.sasl.jaas.config must name a user: write e.g. "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="secret";'
        )
    return pairs["username"], pairs["password"]


def conversation(settings: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """The messages that the client sends; the server's answers come in by `send`. Stops when both sides are sure."""
    user, password = credentials(settings)
    name = mechanism(settings)
    if name == "PLAIN":
        yield b"\0" + user.encode() + b"\0" + password.encode()
        return
    yield from _scram(SCRAM_HASHES[name], user, password, base64.b64encode(os.urandom(_NONCE_BYTES)).decode())


def _scram(digest: str, user: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """RFC 5802, without channel binding, as Kafka has it."""
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    opening = f"n={escaped},r={nonce}"
    heard = (yield b"n,," + opening.encode()).decode()
    challenge = _fields(heard)
    if not challenge.get("r", "").startswith(nonce):
        raise ValueError("the broker's SCRAM nonce does not continue ours")
    salt, rounds = base64.b64decode(challenge["s"]), int(challenge["i"])
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    closing = f"c=biws,r={challenge['r']}"
    signed = f"{opening},{heard},{closing}".encode()
    proof = bytes(a ^ b for a, b in zip(client_key, hmac.digest(stored_key, signed, digest), strict=True))
    verdict = _fields((yield f"{closing},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(verdict.get("v", "")), expected):
        raise ValueError("the broker does not know the password either: its SCRAM signature is wrong")


def _fields(message: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}
