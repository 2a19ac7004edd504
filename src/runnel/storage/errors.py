"""What can go wrong in the storage layer, by what the caller has to do about it.

A client's mistake is a `runnel.wire.errors.Refusal`; these are the broken environment: the log (or the whole
data directory) stops, loudly, and stays stopped.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of the errors below: none of them is the client's mistake."""


class LogOffline(StorageError):
    """The log met an I/O error and takes no more calls in this process (fsyncgate: never retry and ack)."""

    def __init__(self, directory: str, cause: BaseException) -> None:
        super().__init__(f"log {directory} is offline: {cause}")
        self.directory = directory
        self.cause = cause


class LogCorrupt(StorageError):
    """Bytes that were known to be on disk are damaged; nothing was changed, a person has to decide."""


class TopicIdMismatch(StorageError):
    """The folder belongs to another topic of the same name (a leftover of a deleted one)."""


class DataDirInUse(StorageError):
    """Another process holds the lock of this data directory."""

    def __init__(self, directory: str, process_id: int | None) -> None:
        owner = f"process {process_id}" if process_id else "another process"
        super().__init__(f"data directory {directory} is in use by {owner}")
        self.directory = directory
        self.process_id = process_id


class DataDirInvalid(StorageError):
    """The data directory belongs to another broker or cluster, or its meta.properties cannot be read."""
