"""The effective configuration of this broker and of every topic, and changes to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
from runnel.services.controller import Controller
from runnel.wire.errors import ErrorCode, Refusal


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

    def topic_refusal(self, overrides: Mapping[str, str], /) -> str | None:
        return self._rules.topic_refusal(overrides)

    def broker_refusal(self, overrides: Mapping[str, str], /) -> str | None:
        return self._rules.broker_refusal(overrides)

    def topic_list(self, name: str, /) -> tuple[str, ...] | None:
        return self._rules.topic_list(name)

    def broker_list(self, name: str, /) -> tuple[str, ...] | None:
        return self._rules.broker_list(name)

    # --- what the config APIs ask -----------------------------------------------------------------------------

    def describe(self, resource: ConfigResource, names: Collection[str] | None) -> list[ConfigRow]:
        if resource.type == ResourceType.TOPIC:
            return self._describe_topic(resource.name, names)
        if resource.type == ResourceType.BROKER:
            return self._describe_broker(resource.name, names)
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.type}; use topic or broker")

    def _describe_topic(self, name: str, names: Collection[str] | None) -> list[ConfigRow]:
        topic = self._known_image().topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return self.of_topic(topic.configs).describe(names)

    def _describe_broker(self, name: str, names: Collection[str] | None) -> list[ConfigRow]:
        if name == "":
            return self.broker.describe_default(names)
        if name != str(self._node_id):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id {name!r}; this is broker {self._node_id}")
        return self.broker.describe(names)

    async def replace(
        self, resources: Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]], validate_only: bool
    ) -> Sequence[ConfigOutcome]:
        outcomes: Sequence[ConfigOutcome] = await self._attached().submit(AlterConfigs(resources, validate_only))
        return outcomes

    async def change(
        self, resources: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]], validate_only: bool
    ) -> Sequence[ConfigOutcome]:
        command = IncrementalAlterConfigs(resources, validate_only)
        outcomes: Sequence[ConfigOutcome] = await self._attached().submit(command)
        return outcomes

    def _attached(self) -> Controller:
        if self._controller is None:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is starting")
        return self._controller

    def _known_image(self) -> ClusterImage:
        return self._attached().image
