"""Know a function again: its code and that of what it calls, without the places that an editor moves.

A comment, a blank line or a new position in the file changes nothing; a changed constant, name or step does. UDFs and
plain functions that the code names are followed, so an edited helper counts as a change of the stream.
Limit: what an imported package does is not followed, and an upgrade of Python may change code that nobody edited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

_DEPTH_MAX = 20


def fingerprint_of(function: Callable[..., object]) -> str:
    """A short hash of the function's code.

    >>> fingerprint_of(lambda row: row + 1) == fingerprint_of(lambda row: row + 1)
    True
    >>> fingerprint_of(lambda row: row + 1) == fingerprint_of(lambda row: row + 2)
    False
    """
    digest = hashlib.sha256()
    for part in _parts(function, seen=set(), depth=0):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


def _parts(value: object, *, seen: set[int], depth: int) -> Iterator[str]:
    function = _underlying(value)
    if function is None or id(function) in seen or depth > _DEPTH_MAX:
        return
    seen.add(id(function))
    yield from _code_parts(function.__code__)
    yield repr(function.__defaults__)
    for name, used in sorted(_used(function).items()):
        if isinstance(used, str | int | float | bool | tuple | frozenset | None):
            yield f"{name}={used!r}"
        else:
            yield from _parts(used, seen=seen, depth=depth + 1)


def _underlying(value: object) -> FunctionType | None:
    """The plain function in a UDF, a decorated stream, or a function as it is."""
    for name in ("func", "function", "__wrapped__"):
        inner = getattr(value, name, None)
        if isinstance(inner, FunctionType):
            return inner
    return value if isinstance(value, FunctionType) else None


def _code_parts(code: CodeType) -> Iterator[str]:
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_names} {code.co_varnames}"
    yield code.co_code.hex()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)


def _used(function: FunctionType) -> dict[str, object]:
    """The globals and closed-over values that the code names, nested functions included."""
    names = set(_names(function.__code__))
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return used | {name: cell.cell_contents for name, cell in cells}


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
