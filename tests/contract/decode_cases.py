r"""What a record's value decodes to: one table for the pipeline's decoder and the verifier's, worked out by hand.

A case holds a schema, the bytes of a record's value (None is a null value), and either the expected columns as plain
Python values in schema order, or the text of the problem. Where the rules leave room, the table says which way it is:

- Of several problems the first of this list is told: null value, not JSON, not an object, repeated key, field. Of
  several fields it is the first in schema order.
- Depth counts open brackets, the outermost included: 512 is read, 513 is not JSON, at the top level too.
- A `float` is the text's double, rounded to the nearest float; both must be finite.
- Of a decimal the exponent is applied to the written digits first: `1.50e1` is 15.0 and has one fraction digit, `1e2`
  has three integer digits. A zero has no integer digit. An exponent below -100 or above 100 is refused, of a zero too.
- The article in a problem is "an" for `int` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

Value = str | bool | int | float | Decimal | date | datetime | None


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    schema: str
    raw: bytes | None
    expected: tuple[Value, ...] | str


ORDER = "id string, account string, model string, quantity decimal(18,6), at timestamp, day date"
NOT_JSON = "not JSON"
NOT_AN_OBJECT = "not an object"
REPEATED = "repeated key"

_ORDER_RAW = (
    b'{"id":"r-1","account":"acme","model":"large","quantity":12.5,"at":"2024-02-29T23:59:59.25Z","day":"2024-02-29"}'
)
_ORDER_VALUES = (
    "r-1",
    "acme",
    "large",
    Decimal("12.5"),
    datetime(2024, 2, 29, 23, 59, 59, 250_000, tzinfo=UTC),
    date(2024, 2, 29),
)


def _nested(opening: bytes, closing: bytes, *, depth: int) -> bytes:
    """An object whose unknown field holds brackets, `depth` of them open at once with the object's own."""
    return b'{"a":1,"x":' + opening * (depth - 1) + closing * (depth - 1) + b"}"


def _field(name: str, kind: str) -> str:
    return f"field {name} is not {'an' if kind == 'int' else 'a'} {kind}"


def _each(kind: str, cases: dict[str, tuple[bytes, Value]]) -> list[Case]:
    """Cases of one column `v`; the raw bytes are of the field's value alone."""
    return [
        Case(f"{kind}: {name}", f"v {kind}", b'{"v":' + raw + b"}", (value,)) for name, (raw, value) in cases.items()
    ]


def _none(kind: str, cases: dict[str, bytes]) -> list[Case]:
    """Cases of one column `v` whose value is not of its type."""
    return [
        Case(f"{kind}: refused: {name}", f"v {kind}", b'{"v":' + raw + b"}", _field("v", kind))
        for name, raw in cases.items()
    ]


WHOLE = [
    Case("a whole record", ORDER, _ORDER_RAW, _ORDER_VALUES),
    Case("white space around and between", "a int", b' \t\r\n{ "a" \n:\t1 \r} \n', (1,)),
    Case("white space in an empty object", "a int", b"{ \n }", (None,)),
    Case("an empty object is all nulls", ORDER, b"{}", (None,) * 6),
    Case("a null field is null", "a int, b string", b'{"a":null,"b":null}', (None, None)),
    Case("fields come in any order", "a int, b int", b'{"b":2,"a":1}', (1, 2)),
    Case("unknown fields are passed over", "a int", b'{"x":{"a":7},"a":1,"y":[{"a":8}],"z":"}"}', (1,)),
    Case("keys are case-sensitive", "a int", b'{"A":1}', (None,)),
    Case("an escaped key is its text", "a int", b'{"\\u0061":1}', (1,)),
    Case("an escaped key beyond ASCII", "`gr\u00f6\u00dfe` int", b'{"gr\\u00f6\\u00dfe":1}', (1,)),
    Case("a key beyond ASCII", "`gr\u00f6\u00dfe` int", '{"gr\u00f6\u00dfe":1}'.encode(), (1,)),
    Case("a key that only begins like a column", "ab int", b'{"a":1,"abc":2}', (None,)),
    Case("a repeated key inside a nested value", "a int", b'{"a":1,"x":{"y":1,"y":2}}', (1,)),
    Case("a lone surrogate in an unknown field", "a int", b'{"a":1,"x":"\\ud800"}', (1,)),
    Case("a lone surrogate in an unknown key", "a int", b'{"a":1,"\\udc00":2}', (1,)),
    Case("two different lone surrogates as keys", "a int", b'{"a":1,"\\udc00":2,"\\udc01":3}', (1,)),
    Case("a zero character in an unknown field", "a int", b'{"a":1,"x":"\\u0000"}', (1,)),
    Case("a huge exponent in an unknown field", "a int", b'{"a":1,"x":1e999999999999}', (1,)),
    Case("six thousand digits in an unknown field", "a int", b'{"a":1,"x":' + b"9" * 6000 + b"}", (1,)),
    Case("a literal in an unknown field", "a int", b'{"x":true,"y":false,"z":null,"a":1}', (1,)),
    Case("seventy unknown keys", "a int", b"{" + b"".join(b'"k%d":0,' % n for n in range(70)) + b'"a":1}', (1,)),
    Case("arrays to the depth limit", "a int", _nested(b"[", b"]", depth=512), (1,)),
    Case("an unknown key that is empty", "a int", b'{"":2,"a":1}', (1,)),
    Case("a null value", ORDER, None, "null value"),
]

BROKEN = [
    Case(f"not JSON: {name}", "a int", raw, NOT_JSON)
    for name, raw in {
        "no byte": b"",
        "white space alone": b" \n",
        "a word": b"hello",
        "an open object": b'{"a":1',
        "an open string": b'{"a":"x',
        "an open key": b'{"a',
        "a key without a value": b'{"a"}',
        "a colon without a value": b'{"a":}',
        "a comma at the end": b'{"a":1,}',
        "a comma at the start": b'{,"a":1}',
        "two commas": b'{"a":1,,"b":2}',
        "no comma": b'{"a":1 "b":2}',
        "a comma at the end of an array": b'{"x":[1,],"a":1}',
        "a comma alone in an array": b'{"x":[,],"a":1}',
        "brackets that cross": b'{"x":[1},"a":1]',
        "a key without quotes": b"{a:1}",
        "single quotes": b"{'a':1}",
        "a number as key": b"{1:1}",
        "something after the object": b'{"a":1} x',
        "two objects": b'{"a":1}{"a":2}',
        "two lines of objects": b'{"a":1}\n{"a":2}',
        "a closing brace too many": b'{"a":1}}',
        "a comment": b'{"a":1 /* one */}',
        "a comment line": b'{"a":1} // one',
        "a byte order mark": b'\xef\xbb\xbf{"a":1}',
        "UTF-16": '{"a":1}'.encode("utf-16-le"),
        "a zero byte at the end": b'{"a":1}\x00',
        "a form feed as white space": b'{"a":\x0c1}',
        "a vertical tab as white space": b'\x0b{"a":1}',
        "a no-break space as white space": b'\xc2\xa0{"a":1}',
        "NaN": b'{"a":NaN}',
        "Infinity": b'{"a":Infinity}',
        "minus Infinity": b'{"x":-Infinity}',
        "True": b'{"a":True}',
        "an unfinished literal": b'{"x":nul}',
        "a literal that goes on": b'{"x":nulls}',
        "a leading zero": b'{"a":01}',
        "a negative leading zero": b'{"a":-01}',
        "a plus sign": b'{"a":+1}',
        "a minus sign alone": b'{"a":-}',
        "two minus signs": b'{"a":--1}',
        "a point without digits": b'{"x":1.}',
        "a point without a whole part": b'{"x":.5}',
        "an exponent without digits": b'{"x":1e}',
        "a signed exponent without digits": b'{"x":1e+}',
        "a broken exponent": b'{"x":1e5.5}',
        "hexadecimal": b'{"a":0x10}',
        "a separator in digits": b'{"a":1_000}',
        "a tab in a string": b'{"x":"a\tb"}',
        "a line end in a key": b'{"a\n":1}',
        "a zero byte in a string": b'{"x":"a\x00b"}',
        "an unknown escape": b'{"x":"\\x41"}',
        "an escape of a single quote": b'{"x":"\\\'"}',
        "a short escape": b'{"x":"\\u12"}',
        "an escape that is not hexadecimal": b'{"x":"\\u12G4"}',
        "an escape with a plus sign": b'{"x":"\\u+123"}',
        "a backslash at the end": b'{"x":"\\',
        "bytes that are not UTF-8": b'{"x":"\xff"}',
        "bytes that are not UTF-8 in a key": b'{"\xff":1}',
        "a continuation byte alone": b'{"x":"\x80"}',
        "a cut character": b'{"x":"\xe2\x82"}',
        "an overlong slash": b'{"x":"\xc0\xaf"}',
        "an overlong zero of three bytes": b'{"x":"\xe0\x80\x80"}',
        "an overlong character of four bytes": b'{"x":"\xf0\x8f\xbf\xbf"}',
        "a surrogate in UTF-8": b'{"x":"\xed\xa0\x80"}',
        "a character past the last": b'{"x":"\xf4\x90\x80\x80"}',
        "bytes that are not UTF-8 after the object": b'{"a":1}\xff',
        "arrays past the depth limit": _nested(b"[", b"]", depth=513),
        "objects past the depth limit": _nested(b'{"k":', b"}", depth=513).replace(b":}", b":0}"),
        "an array past the depth limit at the top": b"[" * 513 + b"]" * 513,
        "open brackets without end": b'{"x":' + b"[" * 100_000,
        "broken inside a nested value": b'{"a":1,"x":{"y":[1,{"z":01}]}}',
        "broken after a repeated key": b'{"a":1,"a":2,}',
        "broken after a field that is not of its type": b'{"a":"x"',
        "an array with something after it": b"[1] 2",
    }.items()
]

TOP = [
    *(
        Case(f"not an object: {raw.decode()}", "a int", raw, NOT_AN_OBJECT)
        for raw in (b"[]", b'[{"a":1}]', b"1", b"-0.5e3", b'"a"', b"null", b" true ", b"false")
    ),
    Case("not an object: an array at the depth limit", "a int", b"[" * 512 + b"]" * 512, NOT_AN_OBJECT),
    Case("a declared key twice", "a int", b'{"a":1,"a":1}', REPEATED),
    Case("a declared key twice, null once", "a int", b'{"a":null,"a":1}', REPEATED),
    Case("an unknown key twice", "a int", b'{"x":1,"a":1,"x":2}', REPEATED),
    Case("a key twice, escaped once", "a int", b'{"a":1,"\\u0061":2}', REPEATED),
    Case("an unknown key twice, escaped once", "a int", b'{"x/y":1,"x\\/y":2}', REPEATED),
    Case(
        "an unknown key twice, as a pair of escapes", "a int", '{"\U0001f600":1,"\\ud83d\\ude00":2}'.encode(), REPEATED
    ),
    Case("a lone surrogate twice as key", "a int", b'{"\\ud83d":1,"\\uD83D":2}', REPEATED),
    Case("the empty key twice", "a int", b'{"":1,"":2}', REPEATED),
    Case(
        "a key twice among ninety", "a int", b"{" + b",".join(b'"k%d":0' % (n % 89) for n in range(90)) + b"}", REPEATED
    ),
    Case("a repeated key goes before a field", "a int", b'{"a":"x","y":1,"y":1}', REPEATED),
    Case("the first field in schema order is told", "a int, b int", b'{"b":"x","a":"y"}', _field("a", "int")),
    Case("a field of several", ORDER, _ORDER_RAW.replace(b"12.5", b'"many"'), _field("quantity", "decimal(18,6)")),
    Case("a nested object in a declared field", "a int", b'{"a":{"a":1}}', _field("a", "int")),
    Case("an array in a declared field", "a string", b'{"a":["x"]}', _field("a", "string")),
]

TEXT = [
    *_each(
        "string",
        {
            "empty": (b'""', ""),
            "plain": (b'"abc"', "abc"),
            "beyond ASCII": ('"z\u00fcrich \u20ac \U0001f600"'.encode(), "z\u00fcrich \u20ac \U0001f600"),
            "every short escape": (b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'),
            "four digits": (b'"\\u00e9\\u20AC"', "\u00e9\u20ac"),
            "a pair": (b'"\\ud83d\\ude00"', "\U0001f600"),
            "the last character": (b'"\\udbff\\udfff\xf4\x8f\xbf\xbf"', "\U0010ffff\U0010ffff"),
            "a delete character": (b'"\x7f"', "\x7f"),
            "text that looks like a number": (b'"1"', "1"),
            "text that says null": (b'"null"', "null"),
            "not normalised": ('"e\u0301"'.encode(), "e\u0301"),
            "a byte order mark inside": (b'"\xef\xbb\xbf"', "\ufeff"),
            "an escape at the end": (b'"a\\\\"', "a\\"),
        },
    ),
    *_none(
        "string",
        {
            "a number": b"1",
            "a boolean": b"true",
            "an object": b"{}",
            "a zero character": b'"a\\u0000b"',
            "a lone high surrogate": b'"\\ud800"',
            "a lone low surrogate": b'"\\udc00"',
            "a pair the wrong way round": b'"\\ude00\\ud83d"',
            "two high surrogates": b'"\\ud83d\\ud83d"',
            "a high surrogate before a letter": b'"\\ud83dx"',
        },
    ),
    *_each("boolean", {"true": (b"true", True), "false": (b"false", False), "null": (b"null", None)}),
    *_none("boolean", {"text": b'"true"', "one": b"1", "zero": b"0"}),
]

NUMBERS = [
    *_each("byte", {"least": (b"-128", -128), "greatest": (b"127", 127)}),
    *_none("byte", {"below": b"-129", "above": b"128"}),
    *_each("short", {"least": (b"-32768", -32768), "greatest": (b"32767", 32767)}),
    *_none("short", {"below": b"-32769", "above": b"32768"}),
    *_each("int", {"least": (b"-2147483648", -2147483648), "greatest": (b"2147483647", 2147483647)}),
    *_each("int", {"zero": (b"0", 0), "minus zero": (b"-0", 0)}),
    *_none("int", {"below": b"-2147483649", "above": b"2147483648"}),
    *_none("int", {"a fraction": b"1.5", "a zero fraction": b"1.0", "an exponent": b"1e3", "text": b'"1"'}),
    *_none("int", {"a boolean": b"true", "an object": b"{}", "empty text": b'""', "many digits": b"9" * 6000}),
    *_each(
        "long",
        {
            "least": (b"-9223372036854775808", -9223372036854775808),
            "greatest": (b"9223372036854775807", 9223372036854775807),
            "past what a double holds": (b"9007199254740993", 9007199254740993),
        },
    ),
    *_none(
        "long",
        {
            "below": b"-9223372036854775809",
            "above": b"9223372036854775808",
            "past 64 bits": b"18446744073709551617",
            "a zero exponent": b"1e0",
        },
    ),
    *_each(
        "double",
        {
            "a fraction": (b"0.1", 0.1),
            "a whole number": (b"3", 3.0),
            "minus zero": (b"-0", -0.0),
            "minus zero with a fraction": (b"-0.0", -0.0),
            "a capital exponent": (b"1E3", 1000.0),
            "a signed exponent": (b"25e-1", 2.5),
            "the greatest": (b"1.7976931348623157e308", 1.7976931348623157e308),
            "rounded to the greatest": (b"1.7976931348623158e308", 1.7976931348623157e308),
            "the least above zero": (b"5e-324", 5e-324),
            "less than that": (b"1e-400", 0.0),
            "half way to even, down": (b"9007199254740993", 9007199254740992.0),
            "half way to even, up": (b"9007199254740995", 9007199254740996.0),
            "just below half way": (b"9007199254740992." + b"9" * 30, 9007199254740992.0),
            "just past half way, far behind": (b"9007199254740993." + b"0" * 40 + b"1", 9007199254740994.0),
            "a zero with a huge exponent": (b"0e999999999999", 0.0),
            "seventeen digits": (b"0.30000000000000004", 0.30000000000000004),
            "many digits and a negative exponent": (b"1" + b"0" * 400 + b"e-400", 1.0),
        },
    ),
    *_none(
        "double",
        {
            "past the greatest": b"1.8e308",
            "a huge exponent": b"1e999999999999",
            "six thousand digits": b"9" * 6000,
            "text": b'"0.1"',
            "the word": b'"NaN"',
        },
    ),
    *_each(
        "float",
        {
            "exact": (b"0.5", 0.5),
            "rounded": (b"16777217", 16777216.0),
            "rounded up": (b"16777219", 16777220.0),
            "a whole number": (b"-3", -3.0),
            "the greatest": (b"3.4028234663852886e38", 3.4028234663852886e38),
            "rounded down to the greatest": (b"3.40282356e38", 3.4028234663852886e38),
            "too small": (b"1e-60", 0.0),
        },
    ),
    *_none("float", {"past the greatest": b"3.5e38", "past the greatest double": b"1e400", "text": b'"0.5"'}),
]

DECIMALS = [
    *_each(
        "decimal(18,6)",
        {
            "a number": (b"1.25", Decimal("1.25")),
            "text": (b'"1.25"', Decimal("1.25")),
            "escaped text": (b'"1\\u002e25"', Decimal("1.25")),
            "a whole number": (b"42", Decimal(42)),
            "minus": (b"-0.000001", Decimal("-0.000001")),
            "minus zero": (b"-0.00", Decimal(0)),
            "trailing zeros within the scale": (b"1.500000", Decimal("1.5")),
            "what a double cannot hold": (b"123456789012.123456", Decimal("123456789012.123456")),
            "the greatest": (b"999999999999.999999", Decimal("999999999999.999999")),
            "the least, as text": (b'"-999999999999.999999"', Decimal("-999999999999.999999")),
            "an exponent": (b"1.5e3", Decimal(1500)),
            "a negative exponent": (b"15e-6", Decimal("0.000015")),
            "a capital exponent with plus": (b"1E+2", Decimal(100)),
            "an exponent that eats the fraction": (b"0.0000001234567e7", Decimal("1.234567")),
            "an exponent that makes digits of a small number": (b"0.00000000000000000001e20", Decimal(1)),
            "an exponent with leading zeros": (b"1e0000000000000000000000002", Decimal(100)),
            "a zero with an exponent": (b"0e100", Decimal(0)),
            "a zero with a fraction and an exponent": (b"0.00e2", Decimal(0)),
            "null": (b"null", None),
        },
    ),
    *_none(
        "decimal(18,6)",
        {
            "one fraction digit too many": b"0.0000001",
            "one zero too many": b"1.0000000",
            "one zero too many in text": b'"1.0000000"',
            "one integer digit too many": b"1000000000000",
            "an exponent too many": b"1e12",
            "a fraction from an exponent": b"1e-7",
            "zeros from a negative exponent": b"10e-7",
            "a zero with too many digits": b"0.0000000",
            "a zero with a negative exponent": b"0e-7",
            "an exponent past the limit": b"0e101",
            "an exponent past the limit below": b"0.1e-101",
            "an exponent past the limit that the digits undo": b"0." + b"0" * 101 + b"1e102",
            "a huge exponent": b"1e99999999999999999999",
            "empty text": b'""',
            "text with a space": b'" 1"',
            "text with a plus sign": b'"+1"',
            "text with a leading zero": b'"01"',
            "text with a point alone": b'"1."',
            "text without a whole part": b'".5"',
            "text that is not a number": b'"12,5"',
            "text that says NaN": b'"NaN"',
            "text in other digits": '"\u0661"'.encode(),
            "a boolean": b"true",
            "an object": b"{}",
        },
    ),
    *_each(
        "decimal(38,18)",
        {
            "the greatest": (b"9" * 20 + b"." + b"9" * 18, Decimal("9" * 20 + "." + "9" * 18)),
            "the least": (b"-" + b"9" * 20 + b"." + b"9" * 18, Decimal("-" + "9" * 20 + "." + "9" * 18)),
            "past 64 bits": (b"18446744073709551616.5", Decimal("18446744073709551616.5")),
        },
    ),
    *_none("decimal(38,18)", {"a digit too many": b"1" + b"0" * 20}),
    *_each(
        "decimal(38,0)", {"the greatest": (b"9" * 38, Decimal("9" * 38)), "an exponent": (b"1e37", Decimal(10**37))}
    ),
    *_none("decimal(38,0)", {"a digit too many": b"1" + b"0" * 38, "a fraction": b"1.0", "an exponent": b"1e38"}),
    *_each("decimal(2,2)", {"no integer digit": (b"0.25", Decimal("0.25")), "minus": (b"-0.99", Decimal("-0.99"))}),
    *_none("decimal(2,2)", {"an integer digit": b"1.00", "a whole one": b"1"}),
    *_each("decimal(9,0)", {"a whole one": (b"-999999999", Decimal(-999999999))}),
]


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year to microsecond


TIMES = [
    *_each(
        "timestamp",
        {
            "in UTC": (b'"2024-05-06T07:08:09Z"', _utc(2024, 5, 6, 7, 8, 9)),
            "a digit of fraction": (b'"2024-05-06T07:08:09.5Z"', _utc(2024, 5, 6, 7, 8, 9, 500_000)),
            "six digits of fraction": (b'"2024-05-06T07:08:09.000001Z"', _utc(2024, 5, 6, 7, 8, 9, 1)),
            "an offset to the east": (b'"2024-01-01T01:00:00+05:30"', _utc(2023, 12, 31, 19, 30)),
            "an offset to the west": (b'"2023-12-31T23:00:00-08:00"', _utc(2024, 1, 1, 7)),
            "an offset of zero": (b'"2024-01-01T00:00:00+00:00"', _utc(2024, 1, 1)),
            "an offset of minus zero": (b'"2024-01-01T00:00:00-00:00"', _utc(2024, 1, 1)),
            "the greatest offset": (b'"2024-01-01T23:59:00+23:59"', _utc(2024, 1, 1)),
            "before 1970": (b'"1969-12-31T23:59:59.999999Z"', _utc(1969, 12, 31, 23, 59, 59, 999_999)),
            "the first": (b'"0001-01-01T00:00:00Z"', _utc(1, 1, 1)),
            "the first, by an offset": (b'"0001-01-01T01:00:00+01:00"', _utc(1, 1, 1)),
            "the last": (b'"9999-12-31T23:59:59.999999Z"', _utc(9999, 12, 31, 23, 59, 59, 999_999)),
            "a leap day": (b'"2000-02-29T00:00:00Z"', _utc(2000, 2, 29)),
            "an escaped letter": (b'"2024-01-01T00:00:00\\u005a"', _utc(2024, 1, 1)),
        },
    ),
    *_none(
        "timestamp",
        {
            "no zone": b'"2024-05-06T07:08:09"',
            "a small t": b'"2024-05-06t07:08:09Z"',
            "a small z": b'"2024-05-06T07:08:09z"',
            "a space for T": b'"2024-05-06 07:08:09Z"',
            "a space before": b'" 2024-05-06T07:08:09Z"',
            "a space after": b'"2024-05-06T07:08:09Z "',
            "a line end after": b'"2024-05-06T07:08:09Z\\n"',
            "no seconds": b'"2024-05-06T07:08Z"',
            "a date": b'"2024-05-06"',
            "the basic form": b'"20240506T070809Z"',
            "a point without digits": b'"2024-05-06T07:08:09.Z"',
            "seven digits of fraction": b'"2024-05-06T07:08:09.0000000Z"',
            "a comma for the point": b'"2024-05-06T07:08:09,5Z"',
            "a leap second": b'"2016-12-31T23:59:60Z"',
            "hour 24": b'"2024-05-06T24:00:00Z"',
            "minute 60": b'"2024-05-06T07:60:00Z"',
            "month 13": b'"2024-13-01T00:00:00Z"',
            "month 0": b'"2024-00-01T00:00:00Z"',
            "day 0": b'"2024-01-00T00:00:00Z"',
            "day 31 of April": b'"2024-04-31T00:00:00Z"',
            "no leap year": b'"2023-02-29T00:00:00Z"',
            "no leap year in 1900": b'"1900-02-29T00:00:00Z"',
            "year 0": b'"0000-01-01T00:00:00Z"',
            "five digits of year": b'"12024-01-01T00:00:00Z"',
            "a signed year": b'"+2024-01-01T00:00:00Z"',
            "an offset without colon": b'"2024-05-06T07:08:09+0530"',
            "an offset of hours alone": b'"2024-05-06T07:08:09+05"',
            "an offset with seconds": b'"2024-05-06T07:08:09+05:30:00"',
            "offset hour 24": b'"2024-05-06T07:08:09+24:00"',
            "offset minute 60": b'"2024-05-06T07:08:09+05:60"',
            "Z and an offset": b'"2024-05-06T07:08:09Z+00:00"',
            "a minus sign beyond ASCII": '"2024-05-06T07:08:09\u221208:00"'.encode(),
            "digits beyond ASCII": '"\u0662\u0660\u0662\u0664-05-06T07:08:09Z"'.encode(),
            "in UTC before the first": b'"0001-01-01T00:00:00+00:01"',
            "in UTC after the last": b'"9999-12-31T23:59:59-00:01"',
            "empty text": b'""',
            "a number": b"1714979289",
        },
    ),
    *_each(
        "date",
        {
            "plain": (b'"2024-05-06"', date(2024, 5, 6)),
            "a leap day": (b'"2024-02-29"', date(2024, 2, 29)),
            "before 1970": (b'"1969-12-31"', date(1969, 12, 31)),
            "the first": (b'"0001-01-01"', date(1, 1, 1)),
            "the last": (b'"9999-12-31"', date(9999, 12, 31)),
        },
    ),
    *_none(
        "date",
        {
            "a timestamp": b'"2024-05-06T00:00:00Z"',
            "one digit": b'"2024-5-6"',
            "no leap year": b'"2100-02-29"',
            "year 0": b'"0000-12-31"',
            "month 13": b'"2024-13-01"',
            "a space after": b'"2024-05-06 "',
            "a number": b"20240506",
        },
    ),
]

CASES: list[Case] = [*WHOLE, *BROKEN, *TOP, *TEXT, *NUMBERS, *DECIMALS, *TIMES]
