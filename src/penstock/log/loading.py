"""Load the segments of one partition into memory; the rules are in `recovery`.

Limits: of a sealed segment the end alone is read, of the last one both indexes and what follows their last entry.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.core.errors import DataLossError, PenstockError, fail
from penstock.core.files import File, Files, opened, read_whole, write_synced
from penstock.core.units import LeaderEpoch, Offset
from penstock.core.values import TopicPartition
from penstock.log.durable import Recorded
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY, Index, last_in_file
from penstock.log.mending import LOG_NAME, Mending, offsets_in_names
from penstock.log.reading import damaged
from penstock.log.segment import Segment
from penstock.log.walk import Walk


@dataclass(frozen=True, slots=True)
class Loaded:
    """The last segment is the one that grows; it may not be on the disk yet."""

    segments: tuple[Segment, ...]
    end: Offset
    last_epoch: LeaderEpoch | None
    losses: tuple[PenstockError, ...]


@dataclass(frozen=True, slots=True)
class Loading:
    files: Files
    folder: Path
    name: TopicPartition
    recorded: Recorded


@dataclass(frozen=True, slots=True)
class _Found:
    segment: Segment
    end: Offset
    last_epoch: LeaderEpoch | None


def load_segments(loading: Loading) -> Loaded:
    durable = loading.recorded.end or loading.recorded.start
    bases = offsets_in_names(loading.files, loading.folder, LOG_NAME)
    found = [_load(loading, base, is_last=base == bases[-1]) for base in bases]
    _drop_unused_end(loading, found, durable)
    ends = [loading.recorded.start, *(one.end for one in found)]
    end = max(ends[-1], durable)
    _settle_repeats(loading, found)
    losses = _losses(loading, ends, [*(one.segment.base for one in found), end])
    segments = [one.segment for one in found]
    if not segments or segments[-1].offsets is None or ends[-1] < end:
        _seal_last(loading, segments)
        segments.append(Segment(loading.folder, base=end))
    epochs = [one.last_epoch for one in found if one.last_epoch is not None]
    return Loaded(tuple(segments), end, epochs[-1] if epochs else None, losses)


def _drop_unused_end(loading: Loading, found: list[_Found], durable: Offset) -> None:
    """A segment whose first write never came, or was taken back, names no offset that anybody was given."""
    while len(found) > 1 and not found[-1].segment.size and found[-1].end > max(found[-2].end, durable):
        loading.files.remove(found.pop().segment.path)


def _settle_repeats(loading: Loading, found: list[_Found]) -> None:
    """Two segments may hold the same offsets only where they hold the same bytes."""
    mending = Mending(loading.files, loading.folder, loading.name, loading.recorded)
    for index, (before, after) in enumerate(pairwise(found)):
        if before.end <= after.segment.base:
            continue
        if not mending.cut_repeat(before.segment.base, after.segment.base):
            reason = f"it starts at offset {after.segment.base}, the segment before ends at {before.end}"
            raise damaged(loading.name, after.segment.path, position=0, reason=reason)
        found[index] = _load(loading, before.segment.base, is_last=False)


def _losses(loading: Loading, ends: list[Offset], starts: list[Offset]) -> tuple[PenstockError, ...]:
    """What is missing before each start, the last of which is where appends go on."""
    return tuple(
        fail(DataLossError, "records-lost", partition=loading.name, start=end, end=start)
        for end, start in zip(ends, starts, strict=True)
        if end < start
    )


def _seal_last(loading: Loading, segments: list[Segment]) -> None:
    for segment in segments[-1:]:
        if segment.offsets is not None:
            _write_indexes(loading.files, segment)


def _write_indexes(files: Files, segment: Segment) -> None:
    offsets, times = segment.seal()
    write_synced(files, segment.path.with_suffix(".index"), content=offsets)
    write_synced(files, segment.path.with_suffix(".timeindex"), content=times)
    segment.use_files()


def _load(loading: Loading, base: Offset, *, is_last: bool) -> _Found:
    segment = Segment(loading.folder, base=base)
    with opened(loading.files, segment.path) as log:
        indexes = _whole_indexes(loading.files, segment) if is_last else _index_ends(loading.files, segment)
        found = _resume(segment, log, *indexes) if indexes else None
        is_fresh = found is None
        if found is None:
            found = _grow(loading, segment, log)
    if not is_last and is_fresh:
        _write_indexes(loading.files, segment)
    elif not is_last:
        segment.use_files()
    return found


def _whole_indexes(files: Files, segment: Segment) -> tuple[Index, Index] | None:
    offsets = _read_index(files, segment.path.with_suffix(".index"), layout=OFFSET_ENTRY)
    times = _read_index(files, segment.path.with_suffix(".timeindex"), layout=TIME_ENTRY)
    return (offsets, times) if offsets and times else None


def _read_index(files: Files, path: Path, *, layout: struct.Struct) -> Index | None:
    return Index.from_bytes(read_whole(files, path) or b"", layout=layout)


def _index_ends(files: Files, segment: Segment) -> tuple[Index, Index] | None:
    """The last entry of each, which is enough to find the end of a sealed segment."""
    try:
        with opened(files, segment.path.with_suffix(".index")) as file:
            offsets = last_in_file(file, layout=OFFSET_ENTRY)
        with opened(files, segment.path.with_suffix(".timeindex")) as file:
            times = last_in_file(file, layout=TIME_ENTRY)
    except FileNotFoundError:
        return None
    return (offsets, times) if offsets and times else None


def _resume(segment: Segment, log: File, offsets: Index, times: Index) -> _Found | None:
    """Go on after the last entries; None, and the segment as new, where they do not agree with the log."""
    entry, time = offsets.last(), times.last()
    entries = len(offsets)
    if entry is None or time is None:
        return None
    walk = Walk(log, position=entry.value, end=log.size(), expected=None, check_crc=False)
    segment.resume(offsets=offsets, times=times)
    last_epoch = None
    for start, header in walk:
        is_right = start != entry.value or header.last_offset - segment.base == entry.key
        if not is_right or header.max_timestamp_ms > time.key:
            break
        segment.grow(header, last_offset=header.last_offset)
        last_epoch = header.leader_epoch
    if segment.size != log.size() or len(offsets) != entries or walk.expected is None:
        segment.resume(offsets=Index(OFFSET_ENTRY), times=Index(TIME_ENTRY))
        return None
    return _Found(segment, walk.expected, last_epoch)


def _grow(loading: Loading, segment: Segment, log: File) -> _Found:
    walk = Walk(log, position=0, end=log.size(), expected=segment.base, check_crc=False)
    last_epoch = None
    for _, header in walk:
        segment.grow(header, last_offset=header.last_offset)
        last_epoch = header.leader_epoch
    if walk.flaw:
        raise damaged(loading.name, segment.path, position=walk.position, reason=walk.flaw)
    return _Found(segment, walk.expected or segment.base, last_epoch)
