"""Which leader epoch wrote which offsets: the leader-epoch-checkpoint of one log.

In: an epoch at the offset where it starts; out: the end offset of an epoch (OffsetForLeaderEpoch). The file is a
cache of what the batches say, so a missing or damaged one is rebuilt from the log.
"""

from __future__ import annotations

from runnel.storage.checkpoints import LEADER_EPOCHS_NAME, decode_leader_epochs, encode_leader_epochs
from runnel.storage.files import Files

NO_EPOCH = -1


class LeaderEpochs:
    __slots__ = ("_path", "changed", "entries", "files", "latest")

    def __init__(self, directory: str, files: Files) -> None:
        self._path = f"{directory}/{LEADER_EPOCHS_NAME}"
        self.files = files
        self.entries: list[tuple[int, int]] = []
        self.latest = NO_EPOCH
        self.changed = False
        """The entries in memory are newer than the file."""

    def load(self) -> bool:
        """Read the file; False if it is missing or damaged."""
        try:
            entries = decode_leader_epochs(self.files.read_bytes(self._path))
        except FileNotFoundError:
            return False
        if entries is None:
            return False
        self._set(entries)
        self.changed = False
        return True

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self.latest = entries[-1][0] if entries else NO_EPOCH
        self.changed = True

    def note(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` starts at `start_offset`; older or equal epochs change nothing."""
        if epoch > self.latest:
            kept = [entry for entry in self.entries if entry[1] < start_offset]
            self._set([*kept, (epoch, start_offset)])

    def take_change(self) -> tuple[str, bytes] | None:
        """The file's name and new content if it is behind; a sync job writes it, off the event loop."""
        if not self.changed:
            return None
        self.changed = False
        return self._path, encode_leader_epochs(self.entries)

    def truncate_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) != len(self.entries):
            self._set(kept)

    def truncate_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: the epoch that covers it starts there too, as in Kafka."""
        covering = [entry for entry in self.entries if entry[1] <= start_offset]
        if covering:
            later = [entry for entry in self.entries if entry[1] > start_offset]
            entries = [(covering[-1][0], start_offset), *later]
            if entries != self.entries:
                self._set(entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Kafka's answer: the largest known epoch at or below `epoch`, and the offset where the next one starts.

        (-1, -1) if nothing is known of such an epoch.
        """
        if epoch == NO_EPOCH or not self.entries or epoch > self.latest:
            return NO_EPOCH, -1
        if epoch == self.latest:
            return epoch, log_end_offset
        later = [entry for entry in self.entries if entry[0] > epoch]
        earlier = [entry for entry in self.entries if entry[0] <= epoch]
        found = earlier[-1][0] if earlier else epoch
        return found, later[0][1]
