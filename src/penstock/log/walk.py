"""Go through the batches of a segment file, one after the other, and judge them.

L5   A walk never steps over what it cannot read: it stops there and says at which byte and why.
Limits: it holds one chunk of a megabyte, or one batch where that is larger and its CRC is to be checked.
Worst case: a file of one-record batches, about 0.4 million headers a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crc32c import crc32c

from penstock.core.errors import CorruptError
from penstock.core.files import File
from penstock.core.units import Offset
from penstock.protocol.batches import HEADER_BYTES, MAGIC, BatchHeader, parse_header

CHUNK_BYTES = 1 << 20
_CRC_FROM = 21
_MAGIC_AT = 16
_OFFSETS_AHEAD = 1 << 32


class Walk:
    """The batches from `position` on, with their positions. Where it ends, `flaw` tells what stopped it, None for the
    end.

    `expected` is the offset the next batch must have; None takes the first batch as it comes.
    """

    def __init__(
        self, file: File, *, position: int, end: int, expected: Offset | None, check_crc: bool, chunk: int = CHUNK_BYTES
    ) -> None:
        self.position = position
        self.expected = expected
        self.flaw: str | None = None
        self._file = file
        self._end = end
        self._check_crc = check_crc
        self._chunk = chunk
        self._held = memoryview(b"")
        self._held_from = position

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        while self.position < self._end:
            header = self._next()
            if header is None:
                return
            start = self.position
            self._pass(header)
            yield start, header

    def go_on(self) -> None:
        """Walk as far as it goes."""
        for _ in self:
            pass

    def go_to(self, offset: Offset) -> None:
        """Stand at the batch that holds the offset, or at the end, or where the walk cannot go on."""
        while self.position < self._end and (self.expected or 0) < offset:
            header = self._next()
            if header is None or header.next_offset > offset:
                return
            self._pass(header)

    def _pass(self, header: BatchHeader) -> None:
        self.position += header.size
        self.expected = header.next_offset

    def batch(self, start: int, header: BatchHeader) -> memoryview:
        """The bytes of the batch that was given last."""
        return self._bytes(start, header.size)[: header.size]

    def _next(self) -> BatchHeader | None:
        try:
            header = parse_header(self._bytes(self.position, HEADER_BYTES))
        except CorruptError as error:
            self.flaw = str(error.fields["reason"])
            return None
        self.flaw = self._judge(header)
        return None if self.flaw else header

    def _judge(self, header: BatchHeader) -> str | None:
        if header.magic != MAGIC or header.last_offset_delta < 0:
            return "these bytes are no batch"
        if self.expected is not None and header.base_offset != self.expected:
            return f"offset {header.base_offset} stands where {self.expected} belongs"
        if header.size > self._end - self.position:
            return f"the batch ends {header.size - (self._end - self.position)} bytes after its file"
        if self._check_crc and not is_intact(self.batch(self.position, header), header):
            return "the CRC of the batch does not match"
        return None

    def _bytes(self, position: int, length: int) -> memoryview:
        """At least `length` bytes from `position` on, fewer only at the end."""
        inside = position - self._held_from
        if inside < 0 or inside + length > len(self._held):
            wanted = min(max(length, self._chunk), self._end - position)
            self._held = memoryview(self._file.read_at(position, length=wanted))
            self._held_from, inside = position, 0
        return self._held[inside:]


def is_intact(batch: memoryview, header: BatchHeader) -> bool:
    return len(batch) == header.size and crc32c(batch[_CRC_FROM:]) == header.crc


def find_later_batch(file: File, *, position: int, end: int, expected: Offset) -> int | None:
    """Where a valid batch of `expected` or a later offset starts after `position`; None where nothing valid follows.

    This is what tells a torn end, after which nothing can stand, from damage in the middle.
    """
    pattern = _batch_start(expected)
    for chunk_from in range(position, end, CHUNK_BYTES):
        chunk = file.read_at(chunk_from, length=min(CHUNK_BYTES + HEADER_BYTES, end - chunk_from))
        for match in pattern.finditer(chunk):
            if _is_batch(file, chunk_from + match.start(), end=end, expected=expected):
                return chunk_from + match.start()
    return None


def _batch_start(expected: Offset) -> re.Pattern[bytes]:
    """Bytes that could start such a batch: the leading bytes of its offset, and the magic."""
    low, high = expected.to_bytes(8, "big"), (expected + _OFFSETS_AHEAD).to_bytes(8, "big")
    common = next(i for i in range(8) if low[i] != high[i])
    return re.compile(b"(?s)(?=%s.{%d}\x02)" % (re.escape(low[:common]), _MAGIC_AT - common))


def _is_batch(file: File, position: int, *, end: int, expected: Offset) -> bool:
    try:
        header = parse_header(file.read_at(position, length=HEADER_BYTES))
    except CorruptError:
        return False
    if header.base_offset < expected or header.size > end - position:
        return False
    return is_intact(memoryview(file.read_at(position, length=header.size)), header)
