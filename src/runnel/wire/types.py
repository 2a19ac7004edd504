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
ProducerId = NewType("ProducerId", int)
TimestampMs = NewType("TimestampMs", int)
TopicName = NewType("TopicName", str)
TopicId: TypeAlias = uuid.UUID

ReadBuffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID: TopicId = uuid.UUID(int=0)

NO_EPOCH = LeaderEpoch(-1)
