"""Write the source of one flat function that encodes one message in one version.

The function takes a message `m` and returns a list of buffers to be sent one after the other. Record batches are in
that list as they came, never copied. A field that the version does not have is left out; tagged fields ascend, and
those with their default are left out.
"""

from __future__ import annotations

from penstock.core.invariant import invariant
from penstock.protocol.schema import FIXED, PACKED, Field
from penstock.protocol.source import FunctionSource, default_source


class EncoderSource(FunctionSource):
    def write(self) -> EncoderSource:
        with self.block("def encode(m):"):
            self.line("parts = []")
            self.line("out = bytearray()")
            self._struct(self.direction.message, "m")
            self.line("parts.append(out)")
            self.line("return parts")
        return self

    def run_line(self, name: str, operands: str) -> str:
        return f"out += {name}.pack({operands})"

    def _struct(self, name: str, owner: str) -> None:
        for field in self.plain_fields(name):
            self._field(field, f"{owner}.{field.name}")
        if self.flexible:
            self._tagged(self.tagged_fields(name), owner)

    def _field(self, field: Field, value: str) -> None:
        if not field.is_list and field.type in FIXED:
            self.fixed(FIXED[field.type], value)
        elif self.may_be_null(field):
            self._nullable(field, value)
        else:
            self._present(field, value)

    def _nullable(self, field: Field, value: str) -> None:
        is_struct = field.is_struct and not field.is_list
        with self.block(f"if {value} is None:"):
            if self.flexible and not is_struct:
                self.line("out.append(0)")
            else:
                self.fixed("b" if is_struct else self.length_code(field), "-1")
        with self.block("else:"):
            if is_struct:
                self.fixed("b", "1")
            self._present(field, value)

    def _present(self, field: Field, value: str) -> None:
        if field.is_list:
            self._list(field, value)
        elif field.is_struct:
            self._struct(field.type, value)
        elif field.type == "records":
            self._records(field, value)
        else:
            content = self.variable()
            self.line(f"{content} = {value}.encode()" if field.type == "string" else f"{content} = {value}")
            self._length(field, f"len({content})")
            self.line(f"out += {content}")

    def _records(self, field: Field, value: str) -> None:
        """What stands before the records becomes a buffer of its own, then the records, then a fresh one."""
        views = self.variable()
        self.line(f"{views} = buffers({value})")
        self._length(field, f"sum(map(len, {views}))")
        self.line("parts.append(out)")
        self.line(f"parts += {views}")
        self.line("out = bytearray()")

    def _list(self, field: Field, value: str) -> None:
        self._length(field, f"len({value})")
        if field.type in PACKED:
            self.line(f"out += pack(f'>{{len({value})}}{FIXED[field.type]}', *{value})")
            return
        element = self.variable()
        with self.block(f"for {element} in {value}:"):
            if field.is_struct:
                self._struct(field.type, element)
            else:
                self._field(field.element(), element)

    def _length(self, field: Field, length: str) -> None:
        if self.flexible:
            self._varint(f"{length} + 1")
        else:
            self.fixed(self.length_code(field), length)

    def _varint(self, value: str) -> None:
        variable = self.variable()
        self.line(f"{variable} = {value}")
        self.line(f"if {variable} < 128: out.append({variable})")
        self.line(f"else: out += varint({variable})")

    def _tagged(self, fields: list[Field], owner: str) -> None:
        if not fields:
            self.line("out.append(0)")
            return
        whole, number, tags = self.variable(), self.variable(), self.variable()
        self.line(f"{whole} = out; {number} = 0; {tags} = bytearray()")
        for field in fields:
            invariant(field.type != "records", "records are never tagged", field=field.name)
            with self.block(f"if {self._differs(field, f'{owner}.{field.name}')}:"):
                self._tag(field, f"{owner}.{field.name}", tags)
                self.line(f"{number} += 1")
        self.line(f"out = {whole}")
        self._varint(number)
        self.line(f"out += {tags}")

    def _differs(self, field: Field, value: str) -> str:
        """The condition that a field has not its default, spelled out for structs: comparing them whole is slow."""
        default = default_source(field)
        if field.is_list or not field.is_struct or default == "None":
            return f"{value} != {default}"
        inner = self.direction.structs[field.type]
        return " or ".join(self._differs(field, f"{value}.{field.name}") for field in inner)

    def _tag(self, field: Field, value: str, tags: str) -> None:
        self.line("out = bytearray()")
        self._field(field, value)
        self.line(f"{tags} += varint({field.tag}) + varint(len(out)) + out")


def varint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
