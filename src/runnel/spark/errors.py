"""What goes wrong in the source and the sink, told for the person who runs the query.

`OptionError`: an option is missing, unknown or contradicts another. `DataLoss`: records that the query would have read
are gone; it carries the name that Spark's Kafka connector gives the case, so that alerts keep working.
"""

from __future__ import annotations

from runnel.client.errors import ClientError

__all__ = ["ClientError", "DataLoss", "OptionError", "RowError"]


class OptionError(ValueError):
    """The options do not make sense; the message says which one and what to write instead."""


class RowError(ValueError):
    """A row cannot be written; the message names the row."""


class DataLoss(RuntimeError):
    """Records are gone that the query had still to read."""

    def __init__(self, condition: str, reason: str) -> None:
        super().__init__(
            f"[KAFKA_DATA_LOSS.{condition}] Some data may have been lost: {reason} It was deleted by retention, or its "
            "topic was deleted. To go on with what is there, set the option failOnDataLoss to false."
        )
        self.condition = condition
        self.reason = reason

    def __reduce__(self) -> tuple[type[DataLoss], tuple[str, str]]:
        return DataLoss, (self.condition, self.reason)
