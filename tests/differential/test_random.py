"""Random sequences of requests, the same to both. A seed that fails prints itself and the way there.

RUNNEL_TEST_SEEDS is how many are played, from RUNNEL_TEST_SEED on (`make diff SEEDS=100`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from differential.both import Both
from differential.chance import record_moves, topic_moves
from differential.chance.anything import anything
from differential.chance.consumer_moves import ConsumerGroups
from differential.chance.group_moves import Groups
from differential.chance.world import World

pytestmark = pytest.mark.java

SEEDS = int(os.environ.get("RUNNEL_TEST_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("RUNNEL_TEST_SEED", "1"))
MOVES = 150


def moves(world: World, groups: Groups, consumers: ConsumerGroups) -> list[tuple[int, Callable[[], None]]]:
    """Weights and what may happen next."""
    of_world: list[tuple[int, Callable[[World], None]]] = [
        (6, topic_moves.create),
        (1, topic_moves.delete),
        (2, topic_moves.grow),
        (3, topic_moves.metadata),
        (2, topic_moves.describe),
        (2, topic_moves.describe_configs),
        (2, topic_moves.change_configs),
        (1, topic_moves.log_dirs),
        (20, record_moves.produce),
        (1, record_moves.new_producer),
        (14, record_moves.produce_in_sequence),
        (14, record_moves.fetch),
        (2, record_moves.open_session),
        (10, record_moves.go_on_in_session),
        (8, record_moves.list_offsets),
        (3, record_moves.delete_records),
        (3, record_moves.ends_of_epochs),
        (20, anything),
    ]
    of_groups: list[tuple[int, Callable[[], None]]] = [
        (4, groups.join),
        (2, groups.leave),
        (2, groups.come_back),
        (5, groups.heartbeat),
        (8, groups.commit),
        (5, groups.fetch_offsets),
        (2, groups.delete_offsets),
        (3, groups.describe),
        (2, groups.list),
        (1, groups.delete),
        (4, consumers.join),
        (14, consumers.beat),
        (2, consumers.subscribe),
        (2, consumers.leave),
        (2, consumers.commit),
        (1, consumers.fetch_offsets),
        (3, consumers.describe),
    ]
    return [*((weight, lambda move=move: move(world)) for weight, move in of_world), *of_groups]  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_random_requests(both: Both, seed: int) -> None:
    both.found.clear()
    world = World(both, seed)
    groups = Groups(world)
    weights, choices = zip(*moves(world, groups, ConsumerGroups(world)), strict=True)
    try:
        for move in world.chance.choices(choices, weights, k=MOVES):
            move()
            world.stop_if_different()
    finally:
        groups.part()
