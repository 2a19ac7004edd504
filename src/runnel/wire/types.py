"""The names of the numbers that travel everywhere: offsets, epochs, ids.

Owns: the NewTypes of the protocol and the zero UUID. NewTypes cost nothing at run time; they exist for the
type checker.
"""

from __future__ import annotations

import uuid
from typing import NewType, TypeAlias

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
PartitionIndex = NewType("PartitionIndex", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
Sequence32 = NewType("Sequence32", int)
TimestampMs = NewType("TimestampMs", int)
CorrelationId = NewType("CorrelationId", int)
TopicName = NewType("TopicName", str)
TopicId: TypeAlias = uuid.UUID

ReadBuffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID: TopicId = uuid.UUID(int=0)

NO_OFFSET = Offset(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_BROKER = BrokerId(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_TIMESTAMP = TimestampMs(-1)
