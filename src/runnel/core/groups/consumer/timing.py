"""The deadlines of the members of consumer groups: sessions, revocations, and the rounds of classic members."""

from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.settings import session_timeout_ms
from runnel.core.groups.deadlines import Due
from runnel.core.groups.records import CurrentSaved, MemberSaved, MemberState
from runnel.core.groups.store import GroupStore


class Timing:
    __slots__ = ("_store",)

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    def heard_of(self, member: MemberSaved, now_ms: int) -> None:
        timeout_ms = session_timeout_ms(self._store, member.group_id, member)
        self._store.deadlines.set(Due.SESSION, member.group_id, member.member_id, now_ms + timeout_ms)

    def after_step(self, member: MemberSaved, had: CurrentSaved, has: CurrentSaved, now_ms: int) -> None:
        """A member that has to give partitions up has its rebalance timeout for it. Each new demand begins it anew."""
        self.heard_of(member, now_ms)
        if has is not had:
            self.set_revocation(member, has, now_ms)

    def set_revocation(self, member: MemberSaved, current: CurrentSaved, now_ms: int) -> None:
        deadlines = self._store.deadlines
        if current.state is MemberState.UNREVOKED:
            at_ms = now_ms + member.rebalance_timeout_ms
            deadlines.set(Due.REVOCATION, member.group_id, member.member_id, at_ms)
        else:
            deadlines.cancel(Due.REVOCATION, member.group_id, member.member_id)

    def await_step(self, member: MemberSaved, now_ms: int) -> None:
        """It may not go on before it has caught up; that has an end, too."""
        self._begin(Due.REVOCATION, member, now_ms)

    def _begin(self, due: Due, member: MemberSaved, now_ms: int) -> None:
        """A rebalance timeout from now, unless it has begun already."""
        if not self._store.deadlines.is_set(due, member.group_id, member.member_id):
            at_ms = now_ms + member.rebalance_timeout_ms
            self._store.deadlines.set(due, member.group_id, member.member_id, at_ms)

    # --- classic members --------------------------------------------------------------------------------------

    def await_join(self, member: MemberSaved, now_ms: int) -> None:
        """It was told to rejoin; being told again gives it no more time."""
        self._begin(Due.JOIN, member, now_ms)

    def joined(self, member: MemberSaved, now_ms: int) -> None:
        deadlines = self._store.deadlines
        self.heard_of(member, now_ms)
        deadlines.cancel(Due.JOIN, member.group_id, member.member_id)
        deadlines.set(Due.SYNC, member.group_id, member.member_id, now_ms + member.rebalance_timeout_ms)

    def synced(self, member: MemberSaved, now_ms: int) -> None:
        self.heard_of(member, now_ms)
        self._store.deadlines.cancel(Due.SYNC, member.group_id, member.member_id)

    # --- coming and going -------------------------------------------------------------------------------------

    def paused(self, group_id: str, member_id: str) -> None:
        """It has nothing to give up any more; its session goes on."""
        self._store.deadlines.cancel(Due.REVOCATION, group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        for due in Due:
            self._store.deadlines.cancel(due, group_id, member_id)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """Everybody has their full time again, who has to give partitions up too."""
        for member in group.members.values():
            self.heard_of(member, now_ms)
            if member.classic is None:
                self.set_revocation(member, group.current_of(member.member_id), now_ms)
