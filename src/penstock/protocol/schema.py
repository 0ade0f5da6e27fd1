"""What the messages look like on the wire: our own form of Kafka's schemas, read from `schemas/*.json`.

One file describes one API:

    {"key": 18, "versions": "0-4", "flexible": 3, "request": {...}, "response": {...}}

`versions` is what we accept, `flexible` the first version in the compact encoding. A request or response maps struct
names to their fields; its first struct is the message itself. A field is one line, in the order of the wire:

    name: type[] ? versions tag number = default

    "max_wait_ms: int32"                      in every version
    "rack_id: string 11+"                     from version 11
    "topic: string 4-12"                      in these versions only
    "rack: string? 16+ = null"                may be null, and is so by default
    "topics: MetadataRequestTopic[]?1+"       a list that may be null from version 1
    "replica_state: ReplicaState 15+ tag 1"   sent as tagged field 1, unless it has its default

Types: bool, int8, int16, uint16, int32, uint32, int64, float64, uuid (16 bytes), string, bytes, records, and the
structs of the same message. Without a default a field is false, zero, empty, or a struct of defaults.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from penstock.core.errors import BugError, fail

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of a fixed width, as `struct` spells them."""

PACKED = frozenset(FIXED) - {"uuid"}
"""Types of which `struct` reads and writes a whole list at once."""

_VARIABLE = frozenset({"string", "bytes", "records"})
_ALWAYS = 2**15 - 1
_LINE = re.compile(
    r"(?P<name>\w+): (?P<type>\w+)(?P<list>\[\])?(?P<null>\?(?P<null_in>\d[\d+-]*)?)?"
    r"(?: (?P<versions>\d[\d+-]*))?(?: tag (?P<tag>\d+))?(?: = (?P<default>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    is_list: bool
    versions: range
    null_versions: range
    tag: int | None
    default: str | None

    @property
    def is_struct(self) -> bool:
        return self.type not in FIXED and self.type not in _VARIABLE

    def element(self) -> Field:
        """One element of this list, as a field of its own; an element is never null."""
        return replace(self, is_list=False, null_versions=range(0))

    def is_plain_in(self, version: int) -> bool:
        """Whether the field stands in the body of this version, in its place, and not among the tagged ones."""
        return version in self.versions and self.tag is None

    def is_tagged_in(self, version: int) -> bool:
        return version in self.versions and self.tag is not None


@dataclass(frozen=True, slots=True)
class Direction:
    """A request or a response: its structs by name, the first of them the message, and its first flexible version."""

    structs: dict[str, tuple[Field, ...]]
    flexible: int

    @property
    def message(self) -> str:
        return next(iter(self.structs))


@dataclass(frozen=True, slots=True)
class Schema:
    key: int
    versions: range
    flexible: int
    request: Direction
    response: Direction


@cache
def load_schema(name: str) -> Schema:
    """The schema of the API `name`, such as "fetch"."""
    return parse_schema(files("penstock.protocol").joinpath("schemas", f"{name}.json").read_text())


def parse_schema(text: str) -> Schema:
    data = json.loads(text)
    return Schema(
        key=data["key"],
        versions=_versions(data["versions"]),
        flexible=data["flexible"],
        request=_direction(data["request"], flexible=data["flexible"]),
        response=_direction(data["response"], flexible=data["flexible"]),
    )


def _direction(structs: dict[str, list[str]], *, flexible: int) -> Direction:
    return Direction({name: tuple(_field(line) for line in lines) for name, lines in structs.items()}, flexible)


def _field(line: str) -> Field:
    match = _LINE.fullmatch(line)
    if match is None:
        raise fail(BugError, "invariant-broken", claim="a schema line has the form of schema.py", seen=line)
    versions = _versions(match["versions"])
    nullable = (_versions(match["null_in"]) if match["null_in"] else versions) if match["null"] else range(0)
    tag = int(match["tag"]) if match["tag"] else None
    return Field(match["name"], match["type"], bool(match["list"]), versions, nullable, tag, match["default"])


def _versions(text: str | None) -> range:
    """`11+`, `4-12` or `7`; nothing means every version."""
    if text is None:
        return range(_ALWAYS)
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), _ALWAYS if text.endswith("+") else int(last or first) + 1)
