"""Groups of consumers as a state machine on a replayed log, and their committed offsets.

Owns who is a member of which group, who reads which partition, and what was committed. In: joins, heartbeats, commits
and the like, with the time, new member ids and the cluster as arguments (`machine`). Out: a `Turn`: records to log, a
reply, answers to parked requests. `classic` and `consumer` are the two protocols, `migration` the ways between them,
`assignors` who gets what in consumer groups, `offsets` what was committed, `records` Kafka's own encoding of it all.
Imports `runnel.wire` only.
"""

from runnel.core.groups.consumer.values import (
    ConsumerGroupDescription,
    DescribedConsumer,
    Heartbeat,
    HeartbeatReply,
    Resolution,
)
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
    ClusterView,
    Commit,
    ConsumerLimits,
    GroupDescription,
    GroupLimits,
    GroupListing,
    Join,
    JoinReply,
    LeaveReply,
    Leaving,
    MigrationPolicy,
    NewOffset,
    Offsets,
    Sync,
    SyncReply,
    Turn,
)

__all__ = [
    "ClusterView",
    "Commit",
    "ConsumerGroupDescription",
    "ConsumerLimits",
    "DescribedConsumer",
    "GroupDescription",
    "GroupLimits",
    "GroupListing",
    "GroupMachine",
    "GroupRecord",
    "GroupRemoved",
    "GroupSaved",
    "Heartbeat",
    "HeartbeatReply",
    "Join",
    "JoinReply",
    "LeaveReply",
    "Leaving",
    "MigrationPolicy",
    "NewOffset",
    "OffsetCommitted",
    "OffsetRemoved",
    "Offsets",
    "Resolution",
    "Sync",
    "SyncReply",
    "Turn",
    "decode_record",
    "encode_record",
]
