"""A consumer group as one decision will leave it: each record that is to be logged is applied here at once, so that
the next step of the decision sees it. The group itself changes when the records are replayed.
"""

from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.records import ConsumerRecord, CurrentSaved, Owned


class Draft(ConsumerGroup):
    """`owners` is that of before: what a member gives up in this decision is free from the next one on."""

    __slots__ = ("records",)

    def __init__(self, group: ConsumerGroup) -> None:
        self.records: list[ConsumerRecord] = []
        self.group_id = group.group_id
        self.epoch, self.metadata_hash = group.epoch, group.metadata_hash
        self.target_epoch, self.target_ms = group.target_epoch, group.target_ms
        self.members, self.current = group.members.copy(), group.current.copy()
        self.targets, self.regexes = group.targets.copy(), group.regexes.copy()
        self.static_members, self.regex_members = group.static_members.copy(), group.regex_members.copy()
        self.owners = group.owners
        self.topics_seen = group.topics_seen

    def log(self, record: ConsumerRecord) -> None:
        self.records.append(record)
        self.replay(record)

    def _claim(self, member_id: str, owned: Owned) -> None:
        pass

    def _release(self, record: CurrentSaved | None) -> None:
        pass
