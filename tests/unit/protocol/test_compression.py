"""The codecs against their usual libraries, and bombs that must not go off."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import snappy  # type: ignore[import-untyped]
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import CallerError, CorruptError
from penstock.protocol.compression import (
    OUTPUT_BYTES_MAX,
    RATIO_FREE_BYTES,
    Codec,
    codec_named,
    compress,
    decompress,
)

MIB = 1024 * 1024
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
CONTENT = st.binary(max_size=300) | st.binary(min_size=1, max_size=30).map(lambda part: part * 9_000)


def unxerialled(data: bytes) -> bytes:
    """xerial's blocks by hand: 16 bytes in front, then each block behind its length."""
    out, position = b"", 16
    while position < len(data):
        size = int.from_bytes(data[position : position + 4])
        out += snappy.decompress(data[position + 4 : position + 4 + size])
        position += 4 + size
    return out


ORACLES = {
    Codec.GZIP: (gzip.compress, gzip.decompress),
    Codec.SNAPPY: (snappy.compress, unxerialled),
    Codec.LZ4: (lz4.frame.compress, lz4.frame.decompress),
    Codec.ZSTD: (zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


@pytest.mark.parametrize("codec", COMPRESSED)
@given(content=CONTENT)
@settings(max_examples=20, deadline=None)
def test_each_codec_and_its_usual_library_read_each_other(codec: Codec, content: bytes) -> None:
    theirs_compress, theirs_decompress = ORACLES[codec]
    assert theirs_decompress(compress(content, codec=codec)) == content
    assert bytes(decompress(memoryview(theirs_compress(content)), codec=codec)) == content
    assert bytes(decompress(memoryview(compress(content, codec=codec)), codec=codec)) == content


def test_nothing_is_copied_where_nothing_is_compressed() -> None:
    data = memoryview(b"as it is")
    assert decompress(data, codec=Codec.NONE) is data


def test_lz4_frames_have_independent_blocks_which_is_all_that_java_reads() -> None:
    frame = compress(b"ab" * 200_000, codec=Codec.LZ4)
    assert frame[4] & 0x20
    assert lz4.frame.get_frame_info(frame)["block_linked"] is False


def test_several_gzip_members_are_one_content() -> None:
    data = gzip.compress(b"one") + gzip.compress(b"two")
    assert bytes(decompress(memoryview(data), codec=Codec.GZIP)) == b"onetwo"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_l7_a_bomb_is_refused_without_holding_what_it_claims(codec: Codec) -> None:
    bomb = memoryview(compress(bytes(OUTPUT_BYTES_MAX + MIB), codec=codec))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError, match="compression-bomb"):
            decompress(bomb, codec=codec)
        assert tracemalloc.get_traced_memory()[1] <= 2 * OUTPUT_BYTES_MAX + MIB
    finally:
        tracemalloc.stop()


def test_l7_above_sixteen_mebibytes_a_thousandfold_is_too_much() -> None:
    bomb = memoryview(compress(bytes(RATIO_FREE_BYTES + MIB), codec=Codec.ZSTD))
    assert len(bomb) * 1_000 < RATIO_FREE_BYTES
    with pytest.raises(CorruptError, match="compression-bomb"):
        decompress(bomb, codec=Codec.ZSTD)


def test_a_megabyte_of_zeros_is_no_bomb() -> None:
    for codec in COMPRESSED:
        assert len(decompress(memoryview(compress(bytes(MIB), codec=codec)), codec=codec)) == MIB


def test_l7_a_snappy_block_that_lies_about_its_size_is_refused() -> None:
    with pytest.raises(CorruptError, match="compression-bomb"):
        decompress(memoryview(b"\xff\xff\xff\xff\x0f" + b"x" * 20), codec=Codec.SNAPPY)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(noise=st.binary(max_size=60), cut=st.integers(0, 40))
@settings(max_examples=30, deadline=None)
def test_l7_bytes_that_are_not_of_the_codec_raise_a_typed_error(codec: Codec, noise: bytes, cut: int) -> None:
    whole = compress(b"some content, some content, other content", codec=codec)
    for data in (noise, whole[:cut], whole[:cut] + noise):
        try:
            decompress(memoryview(data), codec=codec)
        except CorruptError as error:
            assert error.code in ("compression-unreadable", "compression-bomb")  # noqa: PT017


def test_cramjam_still_says_in_these_words_that_the_output_is_full() -> None:
    for module in (cramjam.lz4, cramjam.zstd):
        with pytest.raises(cramjam.DecompressionError, match="write whole buffer"):
            module.decompress_into(bytes(module.compress(bytes(1_000))), bytearray(10))


def test_a_codec_is_found_by_its_name() -> None:
    assert codec_named("ZStd") is Codec.ZSTD
    with pytest.raises(CallerError, match="codec-unknown"):
        codec_named("brotli")
