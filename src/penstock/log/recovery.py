"""Open one partition: settle what a crash left, judge what is on the disk, load what memory needs.

After an unclean stop, with `durable` the recorded durable offset:

1. A half-done swap of an earlier recovery is finished; files that were being written aside are removed.
2. Past `durable` every batch is checked against its CRC. At the first bad byte: if no valid batch follows, it is a torn
   write and is cut; else it is damage, and so is any bad byte before `durable`: the partition is not opened, nothing
   of its records is changed, and the error names file and byte. Where `durable` is not known, nothing is cut.
3. What stands past `durable` may be in the page cache alone (a file system may mark pages clean after a failed sync),
   so it is copied: `X.log.cleaned` is written and synced and renamed `X.log.swap`, the segment before is cut at X,
   the swap gets its name. X is the first offset past `durable`.
   Should a power cut undo the cut, two segments hold the same bytes: it is done again.
4. The leader epoch goes up.

After any stop: indexes that are missing, short or invalid are made anew; producer state comes from the newest valid
snapshot and the log after it; a log that ends before `durable`, or a gap between two segments, is reported as lost
records, and appends go on at `durable` or above.

L1   What was acknowledged is served again.
L2   It is served under the same offset, and no offset below `durable` is given again.
L5   Nothing before `durable` is ever cut.
Limits: rot in what was written after the last record cannot be told from a torn write if nothing valid follows. A
disk that keeps a later unsynced write and loses an earlier one leaves what counts as damage. A time index that was
put back from an older copy is believed if it agrees with the end of its log.
Worst case: the headers of the last segment are walked twice, some 0.4 million batches a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.files import Files, read_whole, replace_whole
from penstock.core.units import LeaderEpoch, Offset
from penstock.core.values import TopicPartition
from penstock.log.durable import Recorded
from penstock.log.epochs import FILE_NAME as EPOCHS_NAME
from penstock.log.epochs import Epochs
from penstock.log.loading import Loading, load_segments
from penstock.log.mending import Mending
from penstock.log.partition import Contents
from penstock.log.producers import Producers
from penstock.log.segment import Segment
from penstock.log.walk import Walk

_SNAPSHOT_NAME = re.compile(r"(\d{20})\.snapshot")
_SNAPSHOTS_KEPT = 2


@dataclass(frozen=True, slots=True)
class Recovered:
    contents: Contents
    losses: tuple[PenstockError, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """One partition that is being opened."""

    files: Files
    folder: Path
    name: TopicPartition
    recorded: Recorded
    is_clean: bool
    producers_max: int

    def run(self) -> Recovered:
        """Blocking. Raises `CorruptError` "log-damaged" where it finds damage."""
        mending = Mending(self.files, self.folder, self.name, self.recorded)
        mending.settle_leftovers()
        if not self.is_clean:
            mending.mend()
        loaded = load_segments(Loading(self.files, self.folder, self.name, self.recorded))
        epochs = self._load_epochs(loaded.segments[0].base, loaded.end, loaded.last_epoch)
        producers = self._load_producers(loaded.segments, loaded.end)
        return Recovered(Contents(loaded.segments, loaded.end, epochs, producers), loaded.losses)

    def _load_epochs(self, start: Offset, end: Offset, last_epoch: LeaderEpoch | None) -> Epochs:
        path = self.folder / EPOCHS_NAME
        found = Epochs.from_bytes(read_whole(self.files, path) or b"")
        if found and self.is_clean:
            return found
        epochs = (found or Epochs(((last_epoch or LeaderEpoch(0), start),))).advanced(end)
        replace_whole(self.files, path, content=epochs.to_bytes())
        return epochs

    def _load_producers(self, segments: tuple[Segment, ...], end: Offset) -> Producers:
        producers, start = self._newest_snapshot(end)
        for index, segment in enumerate(segments):
            is_before = index + 1 < len(segments) and segments[index + 1].base <= start
            if segment.size and not is_before:
                self._replay(producers, segment, start)
        return producers

    def _newest_snapshot(self, end: Offset) -> tuple[Producers, Offset]:
        matches = map(_SNAPSHOT_NAME.fullmatch, self.files.names(self.folder))
        offsets = sorted((Offset(int(match[1])) for match in matches if match), reverse=True)
        usable = [offset for offset in offsets if offset <= end]
        for offset in {*offsets} - {*usable[:_SNAPSHOTS_KEPT]}:
            self.files.remove(self._snapshot_path(offset))
        for offset in usable:
            producers = Producers(str(self.name), producers_max=self.producers_max)
            if producers.load_snapshot(read_whole(self.files, self._snapshot_path(offset)) or b""):
                return producers, offset
        return Producers(str(self.name), producers_max=self.producers_max), Offset(0)

    def _snapshot_path(self, offset: Offset) -> Path:
        return self.folder / f"{offset:020}.snapshot"

    def _replay(self, producers: Producers, segment: Segment, start: Offset) -> None:
        file = self.files.open(segment.path)
        try:
            near = segment.position_near(self.files, file, start) if start > segment.base else 0
            for _, header in Walk(file, position=near, end=segment.size, expected=None, check_crc=False):
                if header.base_offset >= start and header.producer_id >= 0:
                    producers.store(header, base_offset=header.base_offset)
        finally:
            file.close()
