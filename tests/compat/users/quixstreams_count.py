"""Quix Streams' word count on a broker: state in a changelog topic, recovered after the local copy is lost.

`python quixstreams_count.py BOOTSTRAP PREFIX FOLDER`. Prints one line, "ok", or ends with a traceback.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from quixstreams import Application, State

WORDS = ["to", "be", "or", "not", "to", "be"]
SECONDS = 60


def count(bootstrap: str, prefix: str, state_dir: Path, turn: int) -> Counter[str]:
    """Feed the words once, and give the counts that came out for them."""
    app = Application(
        broker_address=bootstrap,
        consumer_group=f"{prefix}.counter",
        auto_offset_reset="earliest",
        state_dir=str(state_dir),
        loglevel="ERROR",
    )
    words = app.topic(f"{prefix}.words", key_deserializer="str", value_deserializer="str")
    totals = app.topic(f"{prefix}.totals", key_serializer="str", value_serializer="json")
    seen: Counter[str] = Counter()

    def total(word: str, state: State) -> int:
        number = state.get("total", 0) + 1
        state.set("total", number)
        seen[word] = number
        return number

    app.dataframe(words).apply(total, stateful=True).to_topic(totals)
    with app.get_producer() as producer:
        for word in WORDS:
            producer.produce(words.name, key=word.encode(), value=word.encode())
    app.run(count=len(WORDS), timeout=SECONDS)
    if turn == 1 and not any(state_dir.rglob("*")):
        raise AssertionError("there is no local state, so losing it proves nothing")
    return seen


def changelog_policy(bootstrap: str, prefix: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (name,) = [topic for topic in admin.list_topics().topics if topic.startswith(f"changelog__{prefix}.counter")]
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    policy: str = future.result(SECONDS)["cleanup.policy"].value
    return policy


def main() -> None:
    bootstrap, prefix, folder = sys.argv[1:]
    once = Counter(WORDS)
    first = count(bootstrap, prefix, Path(folder, "first"), 1)
    if first != once:
        raise AssertionError(f"first {first}")
    # Another folder: what was counted must come back from the changelog topic.
    second = count(bootstrap, prefix, Path(folder, "second"), 2)
    if second != once + once:
        raise AssertionError(f"after the loss of the local state {second}")
    if changelog_policy(bootstrap, prefix) != "compact":
        raise AssertionError("the changelog is not compacted")


main()
print("ok")
