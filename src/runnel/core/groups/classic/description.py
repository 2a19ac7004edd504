"""A classic group as DescribeGroups shows it."""

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member
from runnel.core.groups.values import DescribedMember, GroupDescription


def describe(group: ClassicGroup) -> GroupDescription:
    """The protocol and what members subscribed to are told while the group is stable."""
    protocol = group.protocol if group.state is GroupState.STABLE else None
    members = [_described(member, protocol) for member in group.members.values()]
    return GroupDescription(group.group_id, group.state.value, group.protocol_type or "", protocol or "", members)


def _described(member: Member, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(protocol) if protocol is not None else b"",
        member.assignment,
    )
