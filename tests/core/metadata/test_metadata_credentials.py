"""SCRAM credentials: who may have one, what is kept, and that no secret shows."""

from __future__ import annotations

import base64
import hashlib

import pytest
from metadata_cluster import Cluster

from runnel.core.metadata import AlterUserScramCredentials, CredentialDeletion, CredentialUpsertion
from runnel.wire.errors import ErrorCode

SHA_256, SHA_512 = 1, 2


def upsertion(user: str = "alice", mechanism: int = SHA_256, iterations: int = 4096) -> CredentialUpsertion:
    return CredentialUpsertion(user, mechanism, iterations, b"the salt", b"the salted password")


def codes(cluster: Cluster, *changes: CredentialUpsertion | CredentialDeletion) -> dict[str, int]:
    deletions = [change for change in changes if isinstance(change, CredentialDeletion)]
    upsertions = [change for change in changes if isinstance(change, CredentialUpsertion)]
    outcomes = cluster.do(AlterUserScramCredentials(deletions, upsertions))
    assert all((outcome.message is None) == (outcome.code is ErrorCode.NONE) for outcome in outcomes)
    return {outcome.user: int(outcome.code) for outcome in outcomes}


def test_what_is_kept_is_what_rfc_7677_derives() -> None:
    """The example of RFC 7677, section 3: user 'user', password 'pencil'."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    cluster = Cluster()
    assert codes(cluster, CredentialUpsertion("user", SHA_256, 4096, salt, salted)) == {"user": 0}
    kept = cluster.machine.image.scram_credentials["user", SHA_256]
    assert base64.b64encode(kept.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(kept.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert (kept.salt, kept.iterations) == (salt, 4096)


def test_both_mechanisms_stand_beside_each_other() -> None:
    cluster = Cluster()
    assert codes(cluster, upsertion()) == {"alice": 0}
    assert codes(cluster, upsertion(mechanism=SHA_512, iterations=16_384)) == {"alice": 0}
    credentials = cluster.machine.image.scram_credentials
    assert {key: len(found.stored_key) for key, found in credentials.items()} == {("alice", 1): 32, ("alice", 2): 64}
    assert codes(cluster, CredentialDeletion("alice", SHA_256)) == {"alice": 0}
    assert list(cluster.machine.image.scram_credentials) == [("alice", SHA_512)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialUpsertion("alice", SHA_256, 4096, b"salt", b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialDeletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialDeletion("alice", 9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (CredentialDeletion("nobody", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_refusals(change: CredentialUpsertion | CredentialDeletion, code: ErrorCode) -> None:
    cluster = Cluster()
    before = list(cluster.log)
    assert codes(cluster, change) == {change.user: code}
    assert cluster.log == before


def test_a_user_is_changed_once_per_request() -> None:
    cluster = Cluster()
    codes(cluster, upsertion())
    twice = {"alice": ErrorCode.DUPLICATE_RESOURCE, "bob": 0}
    assert codes(cluster, upsertion(), upsertion(mechanism=SHA_512), upsertion("bob")) == twice
    assert codes(cluster, CredentialDeletion("alice", SHA_256), upsertion()) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    # The first thing wrong is what is told.
    gone = CredentialDeletion("carol", SHA_256)
    assert codes(cluster, gone, gone, upsertion("carol")) == {"carol": ErrorCode.RESOURCE_NOT_FOUND}
    assert set(cluster.machine.image.scram_credentials) == {("alice", SHA_256), ("bob", SHA_256)}


def test_nothing_that_is_printed_shows_a_secret() -> None:
    cluster = Cluster()
    codes(cluster, upsertion())
    shown = repr(cluster.machine.image) + repr(upsertion())
    assert "salt" not in shown.replace("salted", "")
    assert "password" not in shown
