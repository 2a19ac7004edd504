"""The options of `format("runnel")` as a sink, and the columns that it takes: those of Spark's Kafka connector.

In: options and the schema of the rows. Out: `SinkOptions`, or OptionError with the cure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import (
    INT64_MAX,
    REFUSED_IN_SINK,
    BrokerSettings,
    broker_settings,
    kafka_settings,
    refuse,
    truth,
    whole_number,
)
from runnel.spark.row_schema import HEADERS_TYPE
from runnel.wire.compression import Compression

BATCH_BYTES = 900_000
"""Just under what a topic takes by default (max.message.bytes): few round trips, and one fsync for many records."""
BUFFER_BYTES = 64 << 20
RECORD_BYTES_MAX = (100 << 20) - 4096
"""What brokers take in one request by default (socket.request.max.bytes), less its header. At more they hang up."""
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
COLUMNS: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS_TYPE,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    brokers: BrokerSettings
    topic: str | None
    acks: int
    idempotent: bool
    idempotence_asked: bool
    """By its option: then it is not given up where a broker does not know it."""
    compression: int
    batch_bytes: int
    record_bytes_max: int
    buffer_bytes: int
    delivery_timeout_s: float


def parse_sink_options(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    given = {name.lower(): value for name, value in options.items()}
    kafka = kafka_settings(given)
    refuse(kafka, REFUSED_IN_SINK)
    topic = given.get("topic", "").strip() or None
    _check_columns(schema, topic)
    acks = _choice(kafka, "acks", "all", ACKS)
    codecs = {codec.name.lower(): int(codec) for codec in Compression}
    largest = whole_number(kafka, "max.request.size", RECORD_BYTES_MAX, least=1)
    return SinkOptions(
        brokers=broker_settings(kafka),
        topic=topic,
        acks=acks,
        idempotent=_is_idempotent(kafka, acks),
        idempotence_asked="enable.idempotence" in kafka,
        compression=_choice(kafka, "compression.type", "none", codecs),
        batch_bytes=min(whole_number(kafka, "batch.size", BATCH_BYTES, least=0), largest),
        record_bytes_max=largest,
        buffer_bytes=whole_number(kafka, "buffer.memory", BUFFER_BYTES, least=1, most=INT64_MAX),
        delivery_timeout_s=whole_number(kafka, "delivery.timeout.ms", 120_000, least=1) / 1000,
    )


def _is_idempotent(kafka: Mapping[str, str], acks: int) -> bool:
    """As in Kafka's own producer: by default where acks allow it; refused where it is asked for and they do not."""
    wanted = truth(kafka, "enable.idempotence", True)
    if "enable.idempotence" in kafka and wanted and acks != ACKS["all"]:
        raise OptionError("option kafka.enable.idempotence needs kafka.acks=all: leave one of them out")
    return wanted and acks == ACKS["all"]


def _check_columns(schema: StructType, topic: str | None) -> None:
    found = {field.name.lower(): field for field in schema.fields if field.name.lower() in COLUMNS}
    if "value" not in found:
        names = ", ".join(schema.fieldNames())
        raise OptionError(f"there is no column 'value' (there are: {names}): rename the one that holds it")
    if topic is None and "topic" not in found:
        raise OptionError("there is neither an option topic nor a column 'topic': give one of them")
    for name, field in found.items():
        # As text: whether a field may be null is no difference here.
        given, wanted = field.dataType.simpleString(), [kind.simpleString() for kind in COLUMNS[name]]
        if given not in wanted:
            raise OptionError(f"column '{field.name}' must be {' or '.join(wanted)}, not {given}: cast it")


def _choice(settings: Mapping[str, str], name: str, default: str, choices: Mapping[str, int]) -> int:
    text = settings.get(name, default).lower()
    if text not in choices:
        raise OptionError(f"option kafka.{name} is '{text}': write one of {', '.join(choices)}")
    return choices[text]
