"""Consumer groups of the classic protocol as a state machine on a replayed log, and their committed offsets.

Owns who is a member of which group, the rounds of its rebalances, and what was committed. In: joins, syncs,
heartbeats, commits, with the time and new member ids as arguments (`machine`). Out: a `Turn`: records to log, a reply,
answers to parked requests. Records have Kafka's own encoding (`records`). Imports `runnel.wire` only.
"""

from runnel.core.groups.machine import GroupMachine
from runnel.core.groups.records import (
    GroupRecord,
    GroupRemoved,
    GroupSaved,
    OffsetCommitted,
    OffsetRemoved,
    decode_record,
    encode_record,
)
from runnel.core.groups.values import (
    Commit,
    GroupDescription,
    GroupLimits,
    GroupListing,
    Join,
    JoinReply,
    LeaveReply,
    Leaving,
    NewOffset,
    Offsets,
    Sync,
    SyncReply,
    Turn,
)

__all__ = [
    "Commit",
    "GroupDescription",
    "GroupLimits",
    "GroupListing",
    "GroupMachine",
    "GroupRecord",
    "GroupRemoved",
    "GroupSaved",
    "Join",
    "JoinReply",
    "LeaveReply",
    "Leaving",
    "NewOffset",
    "OffsetCommitted",
    "OffsetRemoved",
    "Offsets",
    "Sync",
    "SyncReply",
    "Turn",
    "decode_record",
    "encode_record",
]
