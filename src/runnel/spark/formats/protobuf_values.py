"""Protobuf to columns, by Google's library: a generated message class, or a descriptor set and a message's name.

In: a binary column. Out: `struct<data, error>`. With `framed`, values begin with a schema registry's prefix and the
path of the message in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from runnel.spark.errors import OptionError
from runnel.spark.formats.outcome import python_column, unframed
from runnel.wire.varints import decode_varint

if TYPE_CHECKING:
    from pyspark.sql import Column

TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WRAPPERS = frozenset(f"google.protobuf.{name}Value" for name in _WRAPPED)
PATH_LENGTH_MAX = 100

MessagePath: TypeAlias = tuple[int, ...]
"""Where in its file a message is: among the file's messages, then among those inside of that one, and so on."""

# By the numbers of FieldDescriptor.cpp_type: int32, int64, uint32, uint64, double, float, bool, enum, string, message.
SCALARS: dict[int, DataType] = {
    1: IntegerType(),
    2: LongType(),
    3: LongType(),
    4: DecimalType(20, 0),
    5: DoubleType(),
    6: FloatType(),
    7: BooleanType(),
    8: StringType(),
    9: StringType(),
}
UNSIGNED_64, ENUM, MESSAGE = 4, 8, 10
BYTES_TYPE = 12


def from_protobuf(
    column: str | Column, message: Any, *, descriptor_set: bytes | str | Path | None = None, framed: bool = False
) -> Column:
    """`message` is a generated class, or the full name of one in `descriptor_set` (protoc --descriptor_set_out)."""
    if isinstance(message, str):
        if descriptor_set is None:
            raise OptionError(f"a descriptor_set is needed to find message '{message}': protoc --descriptor_set_out")
        content = descriptor_set if isinstance(descriptor_set, bytes) else Path(descriptor_set).read_bytes()
        decode = ProtobufDecoder(message, content, framed)
    else:
        decode = ProtobufDecoder(message.DESCRIPTOR.full_name, _describe(message.DESCRIPTOR.file), framed)
    return python_column(column, _struct(decode.message_class().DESCRIPTOR, ()), decode)


class ProtobufDecoder:
    """Picklable: holds the description, and makes the class where the values are."""

    def __init__(self, name: str, descriptor_set: bytes, framed: bool) -> None:
        self._name = name
        self._descriptor_set = descriptor_set
        self._framed = framed
        self._class: Any = None
        self._names_by_path: dict[MessagePath, list[str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_class": None, "_names_by_path": {}}

    def message_class(self) -> Any:
        if self._class is None:
            self._class = _message_class(self._name, self._descriptor_set)
            self._names_by_path = _names_by_path(self._class.DESCRIPTOR.file)
        return self._class

    def __call__(self, value: bytes) -> Any:
        message_class = self.message_class()
        if self._framed:
            path, value = _message_path(unframed(value)[1])
            self._check(path)
        message = message_class.FromString(value)
        if not message.IsInitialized():
            raise ValueError(f"it lacks the required {', '.join(message.FindInitializationErrors())}")
        return _row(message)

    def _check(self, path: MessagePath) -> None:
        """Serializers register the file that a message is in, so its own file is the one to look in.

        A path that this file does not have is of another version of it, which may well have moved the message.
        """
        names = self._names_by_path.get(path, [self._name])
        if self._name not in names:
            raise ValueError(f"it is a {' or '.join(names)}, not a {self._name}")


def _message_path(value: bytes) -> tuple[MessagePath, bytes]:
    """After the number of the schema come a count, and as many indexes; no indexes are the file's first message."""
    count, at = decode_varint(value, 0)
    if not 0 <= count <= PATH_LENGTH_MAX:
        raise ValueError(f"its message has a path of {count} steps: it is not framed for Protobuf")
    path = []
    for _ in range(count):
        index, at = decode_varint(value, at)
        path.append(index)
    return tuple(path) or (0,), value[at:]


def _names_by_path(file: Any) -> dict[MessagePath, list[str]]:
    """Mostly one name each. Entries of maps are messages to protoc; Confluent's serializer skips them if it normalizes
    schemas, and others never do: paths inside a message with maps may mean either."""
    found: dict[MessagePath, list[str]] = {}
    for with_entries in (True, False):
        for path, message in _paths(file.message_types_by_name.values(), (), with_entries):
            names = found.setdefault(path, [])
            if message.full_name not in names:
                names.append(message.full_name)
    return found


def _paths(messages: Iterable[Any], above: MessagePath, with_entries: bool) -> Iterator[tuple[MessagePath, Any]]:
    counted = [message for message in messages if with_entries or not message.GetOptions().map_entry]
    for index, message in enumerate(counted):
        path = (*above, index)
        if not message.GetOptions().map_entry:
            yield path, message
        yield from _paths(message.nested_types, path, with_entries)


def _describe(file: Any) -> bytes:
    """A file and all that it imports, each after what it needs."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    found: dict[str, Any] = {}

    def visit(each: Any) -> None:
        if each.name in found:  # looked at before its imports: there may be more ways to a file than anyone can walk
            return
        for dependency in each.dependencies:
            visit(dependency)
        found[each.name] = FileDescriptorProto()
        each.CopyToProto(found[each.name])

    visit(file)
    content: bytes = FileDescriptorSet(file=list(found.values())).SerializeToString()
    return content


def _message_class(name: str, descriptor_set: bytes) -> Any:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = descriptor_pool.DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(descriptor_set).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        raise OptionError(f"the descriptor set has no message '{name}'") from error
    except Exception as error:
        raise OptionError(f"the descriptor set cannot be used (was --include_imports left out?): {error}") from error


# Types ----------------------------------------------------------------------------------------------------------


def _struct(message: Any, inside: tuple[str, ...]) -> StructType:
    if message.full_name in inside:
        raise OptionError(f"Protobuf message {message.full_name} contains itself: Spark has no such type")
    within = (*inside, message.full_name)
    return StructType([StructField(field.name, _field_type(field, within)) for field in message.fields])


def _field_type(field: Any, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_single_type(entry["key"], inside), _single_type(entry["value"], inside))
    single = _single_type(field, inside)
    return ArrayType(single) if field.is_repeated else single


def _single_type(field: Any, inside: tuple[str, ...]) -> DataType:
    if field.cpp_type != MESSAGE:
        return BinaryType() if field.type == BYTES_TYPE else SCALARS[field.cpp_type]
    if field.message_type.full_name == TIMESTAMP:
        return TimestampType()
    if field.message_type.full_name in WRAPPERS:
        return _single_type(field.message_type.fields_by_name["value"], inside)
    return _struct(field.message_type, inside)


def _is_map(field: Any) -> bool:
    return field.cpp_type == MESSAGE and bool(field.message_type.GetOptions().map_entry)


# Values ---------------------------------------------------------------------------------------------------------


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        convert = _converter(field.message_type.fields_by_name["value"])
        key = _converter(field.message_type.fields_by_name["key"])
        return [(key(name), convert(item)) for name, item in value.items()]
    convert = _converter(field)
    if field.is_repeated:
        return [convert(item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return convert(value)


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.cpp_type == ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.cpp_type == UNSIGNED_64:
        from decimal import Decimal

        return Decimal
    if field.cpp_type != MESSAGE:
        return lambda value: value
    if field.message_type.full_name == TIMESTAMP:
        return lambda value: datetime.fromtimestamp(value.seconds, UTC).replace(microsecond=value.nanos // 1000)
    if field.message_type.full_name in WRAPPERS:
        inner = _converter(field.message_type.fields_by_name["value"])
        return lambda value: inner(value.value)
    return _row
