"""Features are finalized at the first start, and on data directories of releases that had none; never again."""

from __future__ import annotations

import asyncio

from runnel.core.metadata import SetFeatures
from runnel.core.metadata.features import FIRST_LEVELS, GROUP_VERSION, METADATA_VERSION
from runnel.services.node import Node
from runnel.storage.files import MemoryFiles


async def features_after(files: MemoryFiles, change: dict[str, int]) -> dict[str, int]:
    """The features of one run of the broker, which changes them at its end."""
    node = await Node.start(None, {}, 16, files)
    found = dict(node.image.features)
    assert [feature.name for feature in node.image.brokers[1].features] == [GROUP_VERSION, METADATA_VERSION]
    await node._controller.submit(SetFeatures(change))
    await node.stop()
    return found


def test_a_new_directory_gets_the_features_and_keeps_a_choice() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        assert await features_after(files, {GROUP_VERSION: 0}) == FIRST_LEVELS
        assert await features_after(files, {}) == {METADATA_VERSION: FIRST_LEVELS[METADATA_VERSION]}

    asyncio.run(scenario())


def test_a_directory_of_a_release_without_features_is_upgraded() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        await features_after(files, dict.fromkeys(FIRST_LEVELS, 0))
        assert await features_after(files, {}) == FIRST_LEVELS

    asyncio.run(scenario())
