"""The codecs of record batches, with a cap on what decompression may produce.

L7   Decompression never holds more than 64 MiB of output, and above 16 MiB never more than 1,000 times its input.
     Output grows by fixed buffers that are allocated here, so a bomb is refused at the cap and not after it.
Limit: one batch is decompressed whole. A batch whose honest content passes the cap is refused too.
Worst case: a first guess that is too small costs a second decompression into a buffer eight times as large.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam

from penstock.core.errors import CallerError, CorruptError, fail

OUTPUT_BYTES_MAX = 64 * 1024 * 1024
RATIO_MAX = 1_000
RATIO_FREE_BYTES = 16 * 1024 * 1024
"""A megabyte of zeros is no bomb: below this size no ratio is asked for."""

_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_GUESS_RATIO = 16
_GROWTH = 8
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_WINDOW = 31
_LZ4_FRAME_START = bytes.fromhex("04224d18604082")
"""Magic, then: version 1, independent blocks of at most 64 KiB, no checksums; last the check byte of these."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_named(name: str) -> Codec:
    """The codec of a name that a user typed.

    >>> codec_named("zstd")
    <Codec.ZSTD: 4>
    """
    try:
        return Codec[name.upper()]
    except KeyError as error:
        raise fail(CallerError, "codec-unknown", value=name) from error


def compress(data: bytes | bytearray | memoryview, *, codec: Codec) -> bytes:
    if codec == Codec.NONE:
        return bytes(data)
    return _COMPRESS[codec](data)


def decompress(data: memoryview, *, codec: Codec, bytes_max: int = OUTPUT_BYTES_MAX) -> memoryview:
    """The content of `data`; the same memory where it is not compressed at all.

    >>> bytes(decompress(memoryview(compress(b"ab" * 8, codec=Codec.LZ4)), codec=Codec.LZ4))
    b'abababababababab'
    """
    if codec == Codec.NONE:
        return data
    try:
        return _DECOMPRESS[codec](data, min(bytes_max, max(RATIO_FREE_BYTES, RATIO_MAX * len(data))))
    except (cramjam.DecompressionError, zlib.error, struct.error, ValueError) as error:
        raise _unreadable(codec, str(error)) from error


def _unreadable(codec: Codec, reason: str) -> Exception:
    return fail(CorruptError, "compression-unreadable", codec=codec.name.lower(), reason=reason)


def _bomb(codec: Codec, size: int, bytes_max: int) -> Exception:
    return fail(CorruptError, "compression-bomb", codec=codec.name.lower(), size=size, bytes_max=bytes_max)


def _gunzip(data: memoryview, bytes_max: int) -> memoryview:
    """Members are read one after another, as gzip allows."""
    out = bytearray()
    rest: bytes | memoryview = data
    while len(rest) > 0:
        member = zlib.decompressobj(_GZIP_WINDOW)
        out += member.decompress(rest, bytes_max - len(out) + 1)
        if len(out) > bytes_max:
            raise _bomb(Codec.GZIP, len(data), bytes_max)
        if not member.eof:
            raise _unreadable(Codec.GZIP, "incomplete stream")
        rest = member.unused_data
    return memoryview(out)


def _unsnap(data: memoryview, bytes_max: int) -> memoryview:
    """Java clients frame snappy in xerial's blocks, others send one raw block; the magic tells them apart."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnap_raw(data, bytes_max)
    out = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        (size,) = struct.unpack_from(">I", data, position)
        position += 4
        if size > len(data) - position:
            raise _unreadable(Codec.SNAPPY, "a block is longer than the data")
        out += _unsnap_raw(data[position : position + size], bytes_max - len(out))
        position += size
    return memoryview(out)


def _unsnap_raw(block: memoryview, bytes_max: int) -> memoryview:
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > bytes_max:
        raise _bomb(Codec.SNAPPY, len(block), bytes_max)
    out = bytearray(claimed)
    filled = cramjam.snappy.decompress_raw_into(block, out)
    return memoryview(out)[:filled]


def _unlz4(data: memoryview, bytes_max: int) -> memoryview:
    return _into_growing(Codec.LZ4, cramjam.lz4.decompress_into, data, bytes_max)


def _unzstd(data: memoryview, bytes_max: int) -> memoryview:
    return _into_growing(Codec.ZSTD, cramjam.zstd.decompress_into, data, bytes_max)


def _into_growing(
    codec: Codec, into: Callable[[memoryview, bytearray], int], data: memoryview, bytes_max: int
) -> memoryview:
    size = min(bytes_max, max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: into(data, out)]
        except cramjam.DecompressionError as error:
            if not _ran_out_of_room(error):
                raise
        if size == bytes_max:
            raise _bomb(codec, len(data), bytes_max)
        size = min(bytes_max, _GROWTH * size)


def _ran_out_of_room(error: cramjam.DecompressionError) -> bool:
    """cramjam tells a full buffer from bad data by its text alone; a test holds it to that text."""
    return "write whole buffer" in str(error)


def _gzip(data: bytes | bytearray | memoryview) -> bytes:
    deflate = zlib.compressobj(wbits=_GZIP_WINDOW)
    return deflate.compress(data) + deflate.flush()


def _snap(data: bytes | bytearray | memoryview) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">I", len(block)) + block
    return bytes(out)


def _lz4(data: bytes | bytearray | memoryview) -> bytes:
    """A frame of independent blocks: Java's reader refuses linked ones, which cramjam's own frames have."""
    view = memoryview(data)
    out = bytearray(_LZ4_FRAME_START)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", len(plain) | _LZ4_STORED) + plain
    return bytes(out + struct.pack("<I", 0))


_COMPRESS: dict[Codec, Callable[[bytes | bytearray | memoryview], bytes]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snap,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_DECOMPRESS: dict[Codec, Callable[[memoryview, int], memoryview]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
