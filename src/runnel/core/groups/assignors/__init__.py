"""Who reads which partition: the assignors that run in the broker (KIP-848). Pure functions, the same input gives the
same output.

In: what each member wants and was last assigned, and how many partitions each topic has. Out: each partition of a
wanted topic for one member that wants it; members that get nothing have an empty assignment.
"""

from runnel.core.groups.assignors.ranges import assign_ranges
from runnel.core.groups.assignors.uniform import assign_uniformly
from runnel.core.groups.assignors.values import Assignor, Wish

__all__ = ["ASSIGNORS", "Assignor", "Wish"]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members and `group.consumer.assignors` use."""
