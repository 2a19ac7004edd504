"""The effective configuration of this broker, of every topic and every group, and changes to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from runnel.core.configs import BrokerConfigView, ConfigRow, ConfigRules, ConfigView
from runnel.core.metadata import (
    AlterConfigs,
    ClusterImage,
    ConfigChange,
    ConfigOutcome,
    ConfigResource,
    IncrementalAlterConfigs,
    ResourceType,
)
from runnel.core.metadata.names import check_topic_name
from runnel.services.controller import Controller
from runnel.services.loggers import change_loggers, describe_loggers
from runnel.wire.errors import ErrorCode, Refusal

Names = Collection[str] | None


class ConfigService:
    """``broker`` is the current view of this broker's configuration; a change replaces it."""

    def __init__(self, node_id: int, static: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._static = static
        self._set_views(BrokerConfigView(static))
        self._controller: Controller | None = None
        self._image: ClusterImage | None = None

    def _set_views(self, broker: BrokerConfigView) -> None:
        self.broker = broker
        self._rules = ConfigRules(broker)

    def attach(self, controller: Controller) -> None:
        self._controller = controller
        self.follow(controller.image)

    def follow(self, image: ClusterImage) -> bool:
        """Take over what the image says of broker configs; whether they changed."""
        changed = self._image is None or image.broker_configs != self._image.broker_configs
        self._image = image
        if changed:
            own = image.broker_configs.get(str(self._node_id), {})
            self._set_views(self.broker.with_dynamic(image.broker_configs.get("", {}), own))
        return changed

    def of_topic(self, overrides: Mapping[str, str]) -> ConfigView:
        return self.broker.topic(overrides)

    # The machine asks these of "the rules"; they must always be those of the current view.

    def refusal(self, resource_type: int, overrides: Mapping[str, str], /) -> Refusal | None:
        return self._rules.refusal(resource_type, overrides)

    def list_default(self, resource_type: int, name: str, /) -> tuple[str, ...] | None:
        return self._rules.list_default(resource_type, name)

    # --- what the config APIs ask -----------------------------------------------------------------------------

    def describe(self, resource: ConfigResource, names: Names) -> list[ConfigRow]:
        describe = self._describers().get(resource.type)
        if describe is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.type}")
        return describe(resource.name, names)

    def _describers(self) -> dict[int, Callable[[str, Names], list[ConfigRow]]]:
        return {
            ResourceType.TOPIC: self._describe_topic,
            ResourceType.BROKER: self._describe_broker,
            ResourceType.BROKER_LOGGER: self._describe_loggers,
            ResourceType.CLIENT_METRICS: self._describe_client_metrics,
            ResourceType.GROUP: self._describe_group,
        }

    def _describe_topic(self, name: str, names: Names) -> list[ConfigRow]:
        check_topic_name(name)
        topic = self._known_image().topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return self.of_topic(topic.configs).describe(names)

    def _describe_broker(self, name: str, names: Names) -> list[ConfigRow]:
        if name == "":
            return self.broker.describe_default(names)
        self._check_own(name)
        return self.broker.describe(names)

    def _describe_loggers(self, name: str, names: Names) -> list[ConfigRow]:
        self._check_own(name)
        return describe_loggers(names)

    def _describe_client_metrics(self, name: str, names: Names) -> list[ConfigRow]:
        if name == "":
            raise Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return self.broker.client_metrics(self._known_image().client_metrics_configs.get(name, {})).describe(names)

    def _describe_group(self, name: str, names: Names) -> list[ConfigRow]:
        if name == "":
            raise Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return self.broker.group(self._known_image().group_configs.get(name, {})).describe(names)

    def _check_own(self, name: str) -> None:
        """A broker knows its own settings and loggers only."""
        if not (name.isascii() and name.isdecimal()):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if int(name) != self._node_id:
            message = f"Unexpected broker id, expected {self._node_id}, but received {name}"
            raise Refusal(ErrorCode.INVALID_REQUEST, message)

    def resources(self, types: Collection[int]) -> list[ConfigResource]:
        """The resources of these types that there are (KIP-1142); all types where none is named."""
        image = self._known_image()
        brokers = [str(broker_id) for broker_id in image.brokers]
        known: dict[int, Collection[str]] = {
            ResourceType.TOPIC: image.topics,
            ResourceType.BROKER: brokers,
            ResourceType.BROKER_LOGGER: brokers,
            ResourceType.CLIENT_METRICS: image.client_metrics_configs,
            ResourceType.GROUP: image.group_configs,
        }
        unknown = [kind for kind in types if kind not in known]
        if unknown:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported resource type {unknown[0]}")
        return [ConfigResource(kind, name) for kind in types or known for name in known[kind]]

    async def replace(
        self, resources: Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]], validate_only: bool
    ) -> Sequence[ConfigOutcome]:
        outcomes: Sequence[ConfigOutcome] = await self._attached().submit(AlterConfigs(resources, validate_only))
        return outcomes

    async def change(
        self, resources: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]], validate_only: bool
    ) -> Sequence[ConfigOutcome]:
        """The loggers are this process's own; everything else is of the cluster."""
        of_loggers = [pair for pair in resources if pair[0].type == ResourceType.BROKER_LOGGER]
        outcomes = self._change_loggers(of_loggers, validate_only)
        of_cluster = [pair for pair in resources if pair[0].type != ResourceType.BROKER_LOGGER]
        if of_cluster:
            outcomes += await self._attached().submit(IncrementalAlterConfigs(of_cluster, validate_only))
        return outcomes

    def _change_loggers(
        self, resources: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]], validate_only: bool
    ) -> list[ConfigOutcome]:
        counts = Counter(resource for resource, _ in resources)
        outcomes = []
        for resource, changes in resources:
            try:
                if counts[resource] > 1:
                    raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                self._check_own(resource.name)
                change_loggers(changes, validate_only)
                outcomes.append(ConfigOutcome(resource))
            except Refusal as refusal:
                outcomes.append(ConfigOutcome(resource, refusal.code, refusal.message))
        return outcomes

    def _attached(self) -> Controller:
        if self._controller is None:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is starting")
        return self._controller

    def _known_image(self) -> ClusterImage:
        return self._attached().image
