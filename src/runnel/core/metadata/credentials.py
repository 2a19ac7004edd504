"""Decisions about SCRAM credentials (KIP-554): who may be given one, and what is kept of it.

In: the image and a command, with passwords already salted and hashed by the client. Out: records and an outcome per
user. Kept are the salt and the two keys that check a login; neither the password nor what the client sent can be had
back from them (RFC 5802). Codes and messages follow Apache Kafka's controller.
"""

import hashlib
import hmac
from collections import Counter
from typing import NamedTuple

from runnel.core.metadata.commands import (
    AlterUserScramCredentials,
    CredentialDeletion,
    CredentialOutcome,
    CredentialUpsertion,
    Decision,
)
from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from runnel.wire.errors import ErrorCode, Refusal

ITERATIONS_MAX = 16_384


class ScramMechanism(NamedTuple):
    name: str
    digest: str
    iterations_min: int = 4096


SCRAM_MECHANISMS = {1: ScramMechanism("SCRAM-SHA-256", "sha256"), 2: ScramMechanism("SCRAM-SHA-512", "sha512")}


def alter_credentials(
    image: ClusterImage, command: AlterUserScramCredentials
) -> Decision[tuple[CredentialOutcome, ...]]:
    """A user may be named once in a request, for one mechanism: one of several changes would win by chance."""
    changes: list[CredentialDeletion | CredentialUpsertion] = [*command.deletions, *command.upsertions]
    counts = Counter(change.user for change in changes)
    records: list[MetadataRecord] = []
    outcomes: dict[str, CredentialOutcome] = {}
    for change in changes:
        if change.user in outcomes:
            continue
        try:
            record = _decide(image, change)
            if counts[change.user] > 1:
                message = "A user credential cannot be altered twice in the same request"
                raise Refusal(ErrorCode.DUPLICATE_RESOURCE, message)
            records.append(record)
            outcomes[change.user] = CredentialOutcome(change.user)
        except Refusal as refusal:
            outcomes[change.user] = CredentialOutcome(change.user, refusal.code, refusal.message)
    return Decision(records, tuple(outcomes.values()))


def _decide(image: ClusterImage, change: CredentialDeletion | CredentialUpsertion) -> MetadataRecord:
    if not change.user:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = SCRAM_MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, CredentialUpsertion):
        return _credential(mechanism, change)
    if (change.user, change.mechanism) not in image.scram_credentials:
        message = "Attempt to delete a user credential that does not exist"
        raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
    return RemoveUserScramCredentialRecord(change.user, change.mechanism)


def _credential(mechanism: ScramMechanism, change: CredentialUpsertion) -> UserScramCredentialRecord:
    if change.iterations < mechanism.iterations_min:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
    client_key = hmac.digest(change.salted_password, b"Client Key", mechanism.digest)
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", mechanism.digest),
        iterations=change.iterations,
    )
