"""The settings of the broker that the card is made with: nothing but what makes waiting short.

In: nothing. Out: settings by Kafka's names, for Runnel and, for the run that checks the programs, for Apache Kafka.
"""

from __future__ import annotations

# Kafka's 15 s and 5 s are for large clusters: a cleaned log and a rebalance should not take that long here.
BROKER_SETTINGS: dict[str, str | int | bool] = {
    "log.cleaner.backoff.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
}
# Runnel's own default, given to Kafka too.
KAFKA_SETTINGS = {
    **{name: str(value) for name, value in BROKER_SETTINGS.items()},
    "group.initial.rebalance.delay.ms": "0",
}
