"""Everything one broker can do, assembled: the services that doors call."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runnel.core.metadata import ClusterImage, ClusterLimits, MetadataMachine, RegisterBroker, SetFeatures
from runnel.core.metadata.features import FIRST_LEVELS, METADATA_VERSION, SUPPORTED_FEATURES
from runnel.services.cleaner import Cleaner
from runnel.services.client_quotas import ClientQuotaService
from runnel.services.cluster import ClusterService
from runnel.services.configs import ConfigService
from runnel.services.controller import METADATA_TOPIC, METADATA_TOPIC_ID, Controller
from runnel.services.credentials import CredentialService
from runnel.services.fetch import FetchService
from runnel.services.fetch_sessions import FetchSessions
from runnel.services.flusher import Flusher
from runnel.services.groups import GroupService
from runnel.services.housekeeping import Housekeeping
from runnel.services.log_storage import LogStorage
from runnel.services.offsets import OffsetService
from runnel.services.partition import Partition
from runnel.services.partitions import Partitions, now_ms
from runnel.services.produce import ProduceService
from runnel.services.producer_ids import ProducerIds
from runnel.services.quotas import QuotaService
from runnel.services.reply_cache import ReplyCache
from runnel.services.topic_settings import log_config, partition_settings
from runnel.services.topics import TopicService
from runnel.storage.files import Files

log = logging.getLogger("runnel.node")

DEFAULT_NODE_ID = "1"
METADATA_CONFIGS = {"retention.ms": "-1", "retention.bytes": "-1"}


class Node:
    """One running broker without its doors."""

    def __init__(self, storage: LogStorage, configs: ConfigService, flusher: Flusher) -> None:
        self._storage = storage
        self._flusher = flusher
        self.configs = configs
        self.node_id = storage.node_id
        self.cluster_id = storage.cluster_id
        self.advertised: dict[int, tuple[int, int]] = {}
        self.metadata_replies = ReplyCache()
        self.configs_changed: Callable[[], None] = lambda: None  # a door's: told when broker configs have changed
        self._metadata = self._open_metadata_log()
        self._controller = Controller(self._machine(), self._metadata, flusher, now_ms)
        self.partitions = Partitions(storage, configs)
        self.produce = ProduceService(flusher)
        self.fetch = FetchService(self.partitions, configs.broker["fetch.max.bytes"])
        self.fetch_sessions = FetchSessions(configs.broker["max.incremental.fetch.session.cache.slots"])
        self.offsets = OffsetService()
        self.quotas = QuotaService(configs.broker)
        self.cluster = ClusterService(self._controller, self._metadata, self.node_id, storage.directory_id)
        self.credentials = CredentialService(self._controller)
        self.client_quotas = ClientQuotaService(self._controller)
        self.topics = TopicService(self._controller)
        self.producer_ids = ProducerIds(self._controller, self.node_id)
        self.groups = GroupService(self._controller, self.partitions, configs, flusher)
        self.cleaner = Cleaner(self.partitions, configs, flusher, storage.compaction_runner())
        self._housekeeping = Housekeeping(self.partitions, configs, flusher)

    @classmethod
    async def start(
        cls, data_dir: Path | None, settings: Mapping[str, str], handles_max: int, files: Files | None = None
    ) -> Node:
        """Recover from the data directory (None: memory) and be ready to serve."""
        node_id = int(settings.get("node.id", DEFAULT_NODE_ID))
        storage = LogStorage(data_dir, node_id, settings.get("cluster.id"), handles_max, files)
        try:
            node = cls(storage, ConfigService(storage.node_id, settings), Flusher())
            await node._join()
        except BaseException:
            storage.release()
            raise
        return node

    def _open_metadata_log(self) -> Partition:
        view = self.configs.of_topic(METADATA_CONFIGS)
        opened = self._storage.open_log(METADATA_TOPIC, 0, METADATA_TOPIC_ID, log_config(view), now_ms())
        return Partition(METADATA_TOPIC, METADATA_TOPIC_ID, 0, opened, 1, partition_settings(view))

    def _machine(self) -> MetadataMachine:
        broker = self.configs.broker
        limits = ClusterLimits(
            broker["num.partitions"],
            broker["default.replication.factor"],
            broker["delete.topic.enable"],
            broker["max.partitions.per.broker"],
        )
        return MetadataMachine(self.cluster_id, self.node_id, self.configs, limits)

    async def _join(self) -> None:
        """Replay the metadata log, register this start in it, and begin to follow it."""
        replayed = self._controller.load()
        unclean = not self._storage.was_clean and bool(self.image.topics)
        await self._controller.submit(
            RegisterBroker(
                self.node_id,
                uuid.uuid4(),
                (),
                self.configs.broker["broker.rack"],
                (self._storage.directory_id,),
                SUPPORTED_FEATURES,
                unclean,
            )
        )
        if METADATA_VERSION not in self.image.features:
            await self._controller.submit(SetFeatures(FIRST_LEVELS))
        self.configs.attach(self._controller)
        self.partitions.attach(self.image)
        self.quotas.follow(self.image)
        self._controller.on_change(self._follow)
        self._storage.set_strays_aside({*self.image.topics, METADATA_TOPIC})
        self.partitions.remove_later(self._storage.leftovers())
        self._housekeeping.start()
        self.cleaner.start()
        self.groups.start()
        log.info(
            "broker %d of cluster %s: %d topics, %d partitions, %d metadata records%s",
            self.node_id,
            self.cluster_id,
            len(self.image.topics),
            self.image.partition_count,
            replayed,
            ", after an unclean stop: logs are checked when first used" if unclean else "",
        )

    async def _follow(self, before: ClusterImage, image: ClusterImage) -> None:
        configs_changed = self.configs.follow(image)
        await self.cleaner.follow(image)
        await self.partitions.follow(before, image, configs_changed)
        self.groups.follow(before, image)
        self.quotas.follow(image)
        if configs_changed:
            self.configs_changed()

    async def stop(self) -> None:
        """Flush, close, and leave the mark of a clean stop."""
        await self.cleaner.stop()
        await self._housekeeping.stop()
        await self.groups.stop()
        await self._controller.settle()
        vouched = self.partitions.vouched_for
        clean = await self.partitions.close()
        self.fetch.close()
        self._flusher.close()
        try:
            self._metadata.log.close(clean=True)
        except Exception:
            log.exception("the metadata log did not close in order")
            clean = False
        if clean and vouched:
            self._storage.mark_clean()
        self._storage.release()

    # --- what doors ask ---------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        return self._controller.image

    def topic_name(self, topic_id: uuid.UUID) -> str:
        """The name of a topic id; '' where there is none."""
        return self.image.topic_names.get(topic_id, "")

    def leader_of(self, topic: str, index: int) -> tuple[int, int] | None:
        found = self.image.topics.get(topic)
        partition = found.partition(index) if found is not None else None
        return None if partition is None else (partition.leader, partition.leader_epoch)

    def broker_rows(self, advertised: tuple[str, int]) -> list[dict[str, Any]]:
        """The brokers of the cluster, reachable at the address that the asking client used."""
        host, port = advertised
        rack = self.configs.broker["broker.rack"]
        return [{"node_id": self.node_id, "host": host, "port": port, "rack": rack}]

    def advertised_rows(self) -> list[dict[str, int]]:
        return [
            {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in self.advertised.items()
        ]
