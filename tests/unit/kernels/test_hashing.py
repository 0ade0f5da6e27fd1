"""Row hashes against SipHash written from its definition, over the words that the module says it hashes."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.hashing import hash_rows, hash_words

KEY = bytes(range(16))
MASK = (1 << 64) - 1


def siphash128(message: bytes, *, key: bytes) -> bytes:
    """SipHash-2-4 with 128 bits, as its authors define it."""
    v = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")] * 2
    v = [
        a ^ b
        for a, b in zip(
            v, (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573), strict=True
        )
    ]
    v[1] ^= 0xEE

    def left(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])


def text_words(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data + bytes(-len(data) % 8)


def test_the_reference_meets_the_published_vectors() -> None:
    assert siphash128(b"", key=KEY).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash128(b"\x00", key=KEY).hex() == "da87c1d86b99af44347659119b22fc45"


def test_a_row_of_every_type_hashes_as_its_words() -> None:
    row = pa.table(
        {
            "s": ["h\u00e9llo wor"],
            "b": [True],
            "i": pa.array([-7], pa.int32()),
            "f": pa.array([0.5], pa.float32()),
            "d": pa.array([Decimal("-1.50")], pa.decimal128(18, 6)),
            "day": [date(1969, 12, 31)],
            "at": pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "none": pa.array([None], pa.int64()),
        }
    )
    message = (
        struct.pack("<Q", 1 << 7)
        + text_words("h\u00e9llo wor")
        + struct.pack("<QqdqqqQ", 1, -7, 0.5, -1_500_000, -1, -1, 1_000_000)
    )
    assert hash_rows(row, row.column_names, key=KEY).to_pylist() == [siphash128(message, key=KEY)]


@given(st.lists(st.tuples(st.none() | st.text(max_size=40), st.none() | st.integers(-5, 5)), max_size=20))
def test_rows_hash_as_their_words_wherever_they_stand(rows):  # type: ignore[no-untyped-def]
    table = pa.table(
        {"a": pa.array([a for a, _ in rows], pa.string()), "n": pa.array([n for _, n in rows], pa.int64())}
    )
    expected = [
        siphash128(
            struct.pack("<Q", (a is None) + 2 * (n is None))
            + (b"" if a is None else text_words(a))
            + (b"" if n is None else struct.pack("<q", n)),
            key=KEY,
        )
        for a, n in rows
    ]
    assert hash_rows(table, ["a", "n"], key=KEY).to_pylist() == expected
    cut = len(rows) // 2
    parts = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert hash_rows(parts, ["a", "n"], key=KEY).to_pylist() == expected
    assert hash_rows(table.slice(cut), ["a", "n"], key=KEY).to_pylist() == expected[cut:]


def test_o3_equal_numbers_hash_alike() -> None:
    zeros = pa.table({"f": [0.0, -0.0]})
    one, two = hash_rows(zeros, ["f"], key=KEY).to_pylist()
    assert one == two


def test_values_that_run_together_hash_apart() -> None:
    rows = pa.table({"a": ["ab", "a", "", None, "a\0"], "b": ["c", "bc", "abc", "abc", "bc"]})
    assert len(set(hash_rows(rows, ["a", "b"], key=KEY).to_pylist())) == 5


def test_past_sixty_four_columns_every_null_counts() -> None:
    names = [f"c{n}" for n in range(70)]
    rows = pa.table({name: pa.array([None, None if name != "c69" else 0], pa.int64()) for name in names})
    full, part = hash_rows(rows, names, key=KEY).to_pylist()
    assert full == siphash128(struct.pack("<QQ", MASK, 0b111111), key=KEY)
    assert part == siphash128(struct.pack("<QQq", MASK, 0b011111, 0), key=KEY)


def test_another_key_or_order_gives_another_hash() -> None:
    rows = pa.table({"a": ["x"], "b": ["y"]})
    hashes = {
        hash_rows(rows, ["a", "b"], key=KEY)[0].as_py(),
        hash_rows(rows, ["b", "a"], key=KEY)[0].as_py(),
        hash_rows(rows, ["a", "b"], key=bytes(16))[0].as_py(),
    }
    assert len(hashes) == 3


def test_hashes_become_words_and_slices_keep_their_place() -> None:
    hashes = hash_rows(pa.table({"a": ["x", "y", "z"]}), ["a"], key=KEY)
    words = hash_words(hashes)
    assert [bytes(row.tobytes()) for row in words] == hashes.to_pylist()
    assert np.array_equal(hash_words(hashes.slice(1)), words[1:])
    assert hash_words(hashes.slice(3)).shape == (0, 2)


def test_hashes_that_came_back_from_spark_are_the_same_words() -> None:
    hashes = hash_rows(pa.table({"a": ["x", "y"]}), ["a"], key=KEY)
    assert np.array_equal(hash_words(pa.chunked_array([hashes.cast(pa.binary())])), hash_words(hashes))


def test_wide_and_narrow_text_hash_alike() -> None:
    rows = pa.table({"a": ["x", None, "\u00e9" * 9]})
    wide = rows.set_column(0, "a", rows["a"].cast(pa.large_string()))
    assert hash_rows(wide, ["a"], key=KEY).equals(hash_rows(rows, ["a"], key=KEY))
