"""The client's one exception, and the plain words for Kafka's error codes.

In: an error code and what it was about. Out: a `ClientError` with a message for a person.
"""

from __future__ import annotations

from runnel.wire.errors import RETRIABLE, ErrorCode

# What to do next, for the codes that people really meet. `{subject}` is e.g. "topic 'orders'".
ADVICE: dict[ErrorCode, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "{subject} does not exist; `runnel topic list` shows what does, `runnel topic create` makes one"
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: "{subject} was deleted, perhaps created anew, in the meantime; try again",
    ErrorCode.TOPIC_ALREADY_EXISTS: "{subject} already exists; pass --if-not-exists to accept that",
    ErrorCode.LEADER_NOT_AVAILABLE: "{subject} has no leader now; `runnel doctor` shows offline partitions",
    ErrorCode.MESSAGE_TOO_LARGE: (
        "{subject}: the record is larger than the topic allows; raise it with "
        "`runnel topic alter TOPIC -c max.message.bytes=N`"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: "{subject}: the batch is larger than a segment (segment.bytes)",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "{subject}: fewer replicas are in sync than min.insync.replicas; bring brokers back or use --acks 1"
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed to use {subject}; ask for an ACL on it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed on the cluster ({subject}); ask for an ACL",
    ErrorCode.KAFKA_STORAGE_ERROR: "{subject}: the broker's disk failed or is full; see the broker's log",
    ErrorCode.OFFSET_OUT_OF_RANGE: "{subject}: the offset lies outside the log",
    ErrorCode.GROUP_ID_NOT_FOUND: "{subject} does not exist; `runnel group list` shows what does",
    ErrorCode.NON_EMPTY_GROUP: (
        "{subject} has live members; stop its consumers first (`runnel group describe GROUP --members` shows them)"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "{subject}: the group has live members, whose offsets only they may change; stop its consumers first "
        "(`runnel group describe GROUP --members` shows them)"
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "{subject}: the group is subscribed to this topic; stop its consumers, or change what they subscribe to"
    ),
    ErrorCode.INVALID_GROUP_ID: "{subject}: this is no valid name for a group",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed to use {subject}; ask for an ACL on it",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "{subject} has no coordinator now; is __consumer_offsets online? `runnel cluster health` tells"
    ),
    ErrorCode.RESOURCE_NOT_FOUND: "{subject} does not exist",
    ErrorCode.CORRUPT_MESSAGE: "{subject}: the broker found the batch corrupt (its checksum does not match)",
}


# A broker's own sentence is the better one, except where it merely repeats what the code says.
_CODE_SAYS_IT_ALL = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NON_EMPTY_GROUP,
    }
)


class ClientError(Exception):
    """Anything that went wrong between this client and a broker, told for a person."""

    def __init__(self, message: str, *, code: ErrorCode | None = None, retriable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retriable = retriable or code in RETRIABLE


def known_code(code: int) -> ErrorCode:
    """The error code as a name; a code newer than this client reads as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refused(code: int, subject: str, broker_message: str | None = None) -> ClientError:
    """A `ClientError` for an error code that a broker answered about `subject`."""
    known = known_code(code)
    name = known.name if known == code else f"error code {code}"
    advice = ADVICE.get(known)
    if broker_message and known not in _CODE_SAYS_IT_ALL:
        return ClientError(f"{subject}: {broker_message.rstrip('.')} ({name})", code=known)
    if advice is not None:
        return ClientError(advice.format(subject=subject), code=known)
    return ClientError(f"{subject}: the broker answered {name}", code=known)
