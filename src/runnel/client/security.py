"""TLS and SASL as Kafka's clients are configured for them: `security.protocol`, `ssl.*`, `sasl.*`.

In: settings by Kafka's names. Out: a TLS context, and the requests of a login by PLAIN or SCRAM, for connections of
either kind to send. Keys and certificates are PEM files: Java's keystores are for Java. Complaints begin with the
setting's name.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import ssl
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

from runnel.client.address import Address
from runnel.client.errors import ClientError, refused
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

Settings: TypeAlias = Mapping[str, str]
Question: TypeAlias = tuple[ApiKey, dict[str, Any]]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_ITERATIONS_MIN = 4096
"""What RFC 7677 wants at least, and Kafka's clients insist on: fewer would make the password cheap to guess."""
SCRAM_ITERATIONS_MAX = 1_000_000
"""About a second of hashing. Brokers store at most 16 384; without a limit a peer could keep us busy for ever."""
MECHANISMS = ("PLAIN", *SCRAM_HASHES)
# Options of Spark are the only way to these settings, and there they have a prefix.
PEM_CURE = "name a PEM file and set kafka.{kind}.type to PEM (keytool and openssl convert Java's keystores)"
INLINE_CURE = "write key and certificates to one PEM file and name it in kafka.ssl.keystore.location"
SECURED_CURE = "if that is a TLS or SASL listener, set kafka.security.protocol"
_NONCE_BYTES = 24
_SHOWN_MAX = 20
_PEER_WENT_AWAY = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_JAAS_PAIR = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")


def protocol(settings: Settings) -> str:
    name = settings.get("security.protocol", "PLAINTEXT").upper()
    if name not in PROTOCOLS:
        raise ClientError(f"security.protocol is {name}: write one of {', '.join(PROTOCOLS)}")
    return name


def check(settings: Settings) -> None:
    """Complain before anything is dialled."""
    name = protocol(settings)
    if name.endswith("SSL"):
        tls_context(settings)
    if name.startswith("SASL"):
        mechanism(settings)
        credentials(settings)


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    if not protocol(settings).endswith("SSL"):
        return None
    _require_pem(settings, "ssl.truststore")
    _require_pem(settings, "ssl.keystore")
    context = _trusting(settings)
    _load_keystore(context, settings)
    if settings.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    return context


def _require_pem(settings: Settings, kind: str) -> None:
    if f"{kind}.location" in settings and settings.get(f"{kind}.type", "JKS").upper() != "PEM":
        raise ClientError(f"{kind}.location: {PEM_CURE.format(kind=kind)}")


def _trusting(settings: Settings) -> ssl.SSLContext:
    """Of the authorities in the truststore, or, without one, of those that the system trusts."""
    file, text = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    try:
        return ssl.create_default_context(cafile=file, cadata=text)
    except (OSError, TypeError) as error:  # TypeError: the text has other than ASCII
        name = "ssl.truststore.certificates" if file is None else f"ssl.truststore.location ({file})"
        raise ClientError(f"{name} does not load: {error}") from error


def _load_keystore(context: ssl.SSLContext, settings: Settings) -> None:
    for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
        if name in settings:
            raise ClientError(f"{name} is not supported: {INLINE_CURE}")
    keystore = settings.get("ssl.keystore.location")
    if keystore is None:
        return
    password = settings.get("ssl.key.password", "")  # none at all would have OpenSSL ask at the terminal
    try:
        context.load_cert_chain(keystore, password=password)
    except OSError as error:
        hint = "; if its key is encrypted, kafka.ssl.key.password must be right" if _is_of_tls(error) else ""
        raise ClientError(f"ssl.keystore.location ({keystore}) does not load: {error}{hint}") from error


def _is_of_tls(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError)


def no_tls(address: Address, error: OSError) -> ClientError:
    """A peer that goes away during the handshake may be one that restarts; what TLS itself objects to stays."""
    passing = not _is_of_tls(error) or isinstance(error, _PEER_WENT_AWAY)
    code = ErrorCode.NETWORK_EXCEPTION if passing else None
    hint = "is that a plaintext listener? kafka.security.protocol says how to speak to it"
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "kafka.ssl.truststore.location names the file of the authorities to trust"
    return ClientError(f"no TLS with {address}: {str(error) or 'it hung up during the handshake'}; {hint}", code=code)


def secured_hint(settings: Settings) -> str:
    """For a peer that hangs up before it has answered anything: Kafka does so where a login is due."""
    return "" if protocol(settings).startswith("SASL") else f"; {SECURED_CURE}"


def mechanism(settings: Settings) -> str:
    name = settings.get("sasl.mechanism", "GSSAPI").upper()
    if name not in MECHANISMS:
        raise ClientError(f"sasl.mechanism is {name}: this client has {', '.join(MECHANISMS)}")
    return name


def credentials(settings: Settings) -> tuple[str, str]:
    """User name and password out of the line of JAAS that Kafka's clients take."""
    pairs = {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
        for name, value in _JAAS_PAIR.findall(settings.get("sasl.jaas.config", ""))
    }
    if "username" not in pairs or "password" not in pairs:
        raise ClientError(
            "sasl.jaas.config must name a user: write e.g. "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="secret";'
        )
    return pairs["username"], pairs["password"]


def login(settings: Settings, address: Address) -> Generator[Question, Struct, None]:
    """The requests of a login, in turn; the replies come in by `send`. Nothing where no login is asked for."""
    if not protocol(settings).startswith("SASL"):
        return
    name = mechanism(settings)
    offered = yield ApiKey.SASL_HANDSHAKE, {"mechanism": name}
    if offered.error_code:
        has = ", ".join(offered.mechanisms) or "none"
        raise ClientError(f"{address} does not offer SASL mechanism {name}; it has {has}")
    talk = conversation(settings)
    message = next(talk)
    while True:
        reply = yield ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message}
        if reply.error_code:
            raise refused(reply.error_code, f"authentication at {address}", reply.error_message)
        try:
            message = talk.send(reply.auth_bytes)
        except StopIteration:
            return
        except ValueError as error:
            raise ClientError(f"authentication at {address} failed: {error}") from error


def conversation(settings: Settings) -> Generator[bytes, bytes, None]:
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
    salt = base64.b64decode(challenge.get("s", ""))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, _rounds(challenge.get("i", "")))
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    closing = f"c=biws,r={challenge['r']}"
    signed = f"{opening},{heard},{closing}".encode()
    proof = bytes(a ^ b for a, b in zip(client_key, hmac.digest(stored_key, signed, digest), strict=True))
    verdict = _fields((yield f"{closing},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(verdict.get("v", "")), expected):
        raise ValueError("the broker does not know the password either: its SCRAM signature is wrong")


def _rounds(text: str) -> int:
    if not text.isdecimal() or not SCRAM_ITERATIONS_MIN <= int(text) <= SCRAM_ITERATIONS_MAX:
        raise ValueError(
            f"the broker wants '{text[:_SHOWN_MAX]}' SCRAM iterations, and this client does {SCRAM_ITERATIONS_MIN} to "
            f"{SCRAM_ITERATIONS_MAX}: set the user's password anew, with as many"
        )
    return int(text)


def _fields(message: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}
