"""Write the source of one flat function that decodes one message in one version.

The function takes a memoryview `b` and a position `p`, and returns the message and the position behind it.
`records` stay a view of the input.

L7   A length is compared with the bytes that are left before anything is read, and the count of a list with what its
     shortest elements would need, so a short frame that claims much costs nothing.
A tagged field that is not known is skipped by its size.
Worst case: a list of the shortest elements costs some fifty times its bytes as Python objects.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from penstock.protocol.schema import FIXED, PACKED, Field
from penstock.protocol.source import FunctionSource, default_source

_Reader = Callable[[Field, str], str]
_CONTENT = {"string": "str(b[p:q], 'utf-8')", "bytes": "bytes(b[p:q])", "records": "b[p:q]"}


class DecoderSource(FunctionSource):
    def write(self) -> DecoderSource:
        with self.block("def decode(b, p):"):
            self.line("e = len(b)")
            self.line(f"return {self._struct(self.direction.message)}, p")
        return self

    def run_line(self, name: str, operands: str) -> str:
        return f"{operands}, = {name}.unpack_from(b, p); p += {self.structs[name].size}"

    def _struct(self, name: str) -> str:
        """Read the struct `name`; the answer is the variable that holds it."""
        known = {field.name: self._field(field) for field in self.plain_fields(name)}
        if self.flexible:
            known |= self._tagged(self.tagged_fields(name))
        variable = self.variable()
        arguments = ", ".join(f"{field}={value}" for field, value in known.items())
        self.line(f"{variable} = {name}({arguments})")
        return variable

    def _field(self, field: Field) -> str:
        if field.is_list:
            return self._nullable(field, self._length(field), self._list)
        if field.type in FIXED:
            return self._fixed(FIXED[field.type])
        if not field.is_struct:
            return self._nullable(field, self._length(field), self._content)
        if self.may_be_null(field):
            return self._nullable(field, self._fixed("b"), lambda field, _: self._struct(field.type))
        return self._struct(field.type)

    def _fixed(self, code: str) -> str:
        variable = self.variable()
        self.fixed(code, variable)
        return variable

    def _nullable(self, field: Field, length: str, read: _Reader) -> str:
        """Below zero means null, for lengths and for the marker of a struct alike."""
        variable = self.variable()
        with self.block(f"if {length} < 0:"):
            self.line(f"{variable} = None" if self.may_be_null(field) else f"raise ValueError('{field.name} is null')")
        with self.block("else:"):
            value = read(field, length)
            self.line(f"{variable} = {value}")
        return variable

    def _length(self, field: Field) -> str:
        if not self.flexible:
            return self._fixed(self.length_code(field))
        length = self._varint()
        self.line(f"{length} -= 1")
        return length

    def _varint(self) -> str:
        variable = self.variable()
        self.line(f"{variable} = b[p]; p += 1")
        self.line(f"if {variable} > 127: {variable}, p = varint_tail(b, p, {variable})")
        return variable

    def _content(self, field: Field, length: str) -> str:
        variable = self.variable()
        self.line(f"q = p + {length}")
        self.line(f"if q > e: raise ValueError('{field.name} passes the end')")
        self.line(f"{variable} = {_CONTENT[field.type]}; p = q")
        return variable

    def _list(self, field: Field, length: str) -> str:
        size = self._element_bytes_min(field)
        self.line(f"if {length} > (e - p) // {size}: raise ValueError('{field.name} passes the end')")
        variable = self.variable()
        if field.type in PACKED:
            self.line(
                f"{variable} = list(unpack_from(f'>{{{length}}}{FIXED[field.type]}', b, p)); p += {size} * {length}"
            )
            return variable
        self.line(f"{variable} = []")
        with self.block(f"for _ in range({length}):"):
            element = self._struct(field.type) if field.is_struct else self._field(field.element())
            self.line(f"{variable}.append({element})")
        return variable

    def _element_bytes_min(self, field: Field) -> int:
        if field.is_struct:
            return max(1, sum(self._bytes_min(inner) for inner in self.plain_fields(field.type)) + self.flexible)
        return self._bytes_min(field.element())

    def _bytes_min(self, field: Field) -> int:
        if field.is_struct and not field.is_list:
            return 1 if self.may_be_null(field) else self._element_bytes_min(field)
        if field.type in FIXED and not field.is_list:
            return struct.calcsize(">" + FIXED[field.type])
        return 1 if self.flexible else struct.calcsize(">" + self.length_code(field))

    def _tagged(self, fields: list[Field]) -> dict[str, str]:
        number = self._varint()
        if not fields:
            self.line(f"if {number}: p = skip_tags(b, p, {number})")
            return {}
        known = {field.name: self.variable() for field in fields}
        for field in fields:
            self.line(f"{known[field.name]} = {default_source(field)}")
        with self.block(f"for _ in range({number}):"):
            tag, size, end = self._varint(), self._varint(), self.variable()
            self.line(f"{end} = p + {size}")
            self.line(f"if {end} > e: raise ValueError('a tagged field passes the end')")
            for field in fields:
                self._known_tag(field, f"{tag} == {field.tag}", known[field.name])
            known_tags = [field.tag for field in fields]
            self.line(f"if {tag} not in {known_tags}: p = {end}")
            self.line(f"if p != {end}: raise ValueError('a tagged field has not the size it claims')")
        return known

    def _known_tag(self, field: Field, condition: str, variable: str) -> None:
        with self.block(f"if {condition}:"):
            value = self._field(field)
            self.line(f"{variable} = {value}")


def skip_tags(b: memoryview, p: int, number: int) -> int:
    """The position behind `number` tagged fields that nobody here knows."""
    for _ in range(number):
        _, p = read_varint(b, p)
        size, p = read_varint(b, p)
        p += size
        if p > len(b):
            raise ValueError("a tagged field passes the end")
    return p


def read_varint(b: memoryview, p: int) -> tuple[int, int]:
    first = b[p]
    return (first, p + 1) if first < 0x80 else varint_tail(b, p + 1, first)


def varint_tail(b: memoryview, p: int, value: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte said that more follow: at most five bytes in all."""
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = b[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, p
    raise ValueError("a number is longer than five bytes")
