"""The configs of client metrics subscriptions (KIP-714).

Data only, and all without effect: subscriptions are kept and shown, but telemetry is not collected, which clients learn
from ApiVersions.
"""

from runnel.core.configs.definitions import ClientPatterns, ConfigDefinition, ConfigType

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000

CLIENT_METRICS_CONFIGS: dict[str, ConfigDefinition] = {
    definition.name: definition
    for definition in (
        ConfigDefinition(
            "interval.ms",
            ConfigType.INT,
            300_000,
            "How often clients are to push their metrics.",
            effective=False,
        ),
        ConfigDefinition(
            "match",
            ConfigType.LIST,
            (),
            "Which clients are meant: pairs of a property, such as client_id or client_software_name, and a regular "
            "expression.",
            ClientPatterns(),
            effective=False,
        ),
        ConfigDefinition(
            "metrics",
            ConfigType.LIST,
            (),
            "The prefixes of the names of the metrics that are wanted; * for all.",
            effective=False,
        ),
    )
}
