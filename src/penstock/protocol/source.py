"""Collect the lines of a generated function: blocks, fresh names, and runs of fixed-width fields.

Neighbouring fields of fixed width are held back until another line comes, and then handled by one `struct` call.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from penstock.protocol.schema import Direction, Field


class FunctionSource:
    """The source of one function for one message in one version. `structs` are the precompiled structs it names."""

    def __init__(self, direction: Direction, version: int) -> None:
        self.direction = direction
        self.version = version
        self.flexible = version >= direction.flexible
        self.structs: dict[str, struct.Struct] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._serial = count()
        self._run: list[tuple[str, str]] = []

    def text(self) -> str:
        return "\n".join(self._lines)

    def line(self, text: str) -> None:
        self.flush()
        self._append(text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    def variable(self) -> str:
        return f"v{next(self._serial)}"

    def fixed(self, code: str, operand: str) -> None:
        """Add one fixed-width field to the run: the variable it is read into, or the expression that is written."""
        self._run.append((code, operand))

    def flush(self) -> None:
        if self._run:
            name = f"S{len(self.structs)}"
            self.structs[name] = struct.Struct(">" + "".join(code for code, _ in self._run))
            operands = ", ".join(operand for _, operand in self._run)
            self._run.clear()
            self._append(self.run_line(name, operands))

    def run_line(self, name: str, operands: str) -> str:
        """The line that reads or writes one run with the struct `name`."""
        raise NotImplementedError

    def plain_fields(self, name: str) -> list[Field]:
        return [field for field in self.direction.structs[name] if field.is_plain_in(self.version)]

    def tagged_fields(self, name: str) -> list[Field]:
        tagged = [field for field in self.direction.structs[name] if field.is_tagged_in(self.version)]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def may_be_null(self, field: Field) -> bool:
        return self.version in field.null_versions

    def length_code(self, field: Field) -> str:
        """How the old encoding writes a length: 16 bits for strings, 32 for everything else."""
        return "h" if field.type == "string" and not field.is_list else "i"

    def _append(self, text: str) -> None:
        self._lines.append(" " * self._depth + text)


def default_source(field: Field) -> str:
    """The default of a field as a Python expression."""
    if field.default == "null":
        return "None"
    if field.is_list:
        return "[]"
    if field.is_struct:
        return f"{field.type}()"
    return _scalar_default(field)


def _scalar_default(field: Field) -> str:
    match field.type:
        case "bool":
            return str(field.default == "true")
        case "string":
            return repr(field.default or "")
        case "uuid":
            return "NO_UUID"
        case "bytes" | "records":
            return 'b""'
        case "float64":
            return str(float(field.default or 0))
        case _:
            return str(int(field.default or 0))
