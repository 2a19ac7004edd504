"""A metadata machine with its log beside it, as the tests drive it: handle, log, replay."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from runnel.core.configs import BrokerConfigView, ConfigRules
from runnel.core.metadata import Command, Decision, MetadataMachine, MetadataRecord, RegisterBroker
from runnel.core.metadata.records import Endpoint
from runnel.core.metadata.rules import ClusterLimits

CLUSTER_ID = "cluster-of-tests"
DIRECTORY = UUID(int=77)
RULES = ConfigRules(BrokerConfigView())


def new_machine(limits: ClusterLimits | None = None) -> MetadataMachine:
    return MetadataMachine(CLUSTER_ID, 1, RULES, limits)


def register(broker_id: int = 1, **options: Any) -> RegisterBroker:
    endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    return RegisterBroker(broker_id, UUID(int=1000 + broker_id), endpoints, log_dirs=(DIRECTORY,), **options)


class Cluster:
    """Uuids count up, so that a run can be repeated exactly."""

    def __init__(self, brokers: int = 1, limits: ClusterLimits | None = None) -> None:
        self.machine = new_machine(limits)
        self.log: list[MetadataRecord] = []
        self._uuids = itertools.count(1 << 64)
        for broker_id in range(1, brokers + 1):
            self.do(register(broker_id))

    def new_uuid(self) -> UUID:
        return UUID(int=next(self._uuids))

    def decide(self, command: Command) -> Decision[Any]:
        return self.machine.handle(command, 0, self.new_uuid)

    def do(self, command: Command) -> Any:
        decision = self.decide(command)
        self.log += decision.records
        self.machine.replay_all(decision.records)
        return decision.reply
