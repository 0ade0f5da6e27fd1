"""Knowing a function again by its code."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from penstock.pipeline.code import fingerprint_of

PLAIN = """
RATE = 3
def inner(x):
    return x * RATE
def stream(frame):
    return [inner(row) for row in frame]
"""


def made(source: str, name: str = "stream") -> Callable[..., object]:
    namespace: dict[str, FunctionType] = {}
    exec(compile(source, "pipeline.py", "exec"), namespace)
    return namespace[name]


def test_the_same_code_elsewhere_in_the_file_is_the_same() -> None:
    moved = "\n\n# a remark\n" + PLAIN.replace("return x", "\n    # why\n    return x")
    assert fingerprint_of(made(PLAIN)) == fingerprint_of(made(moved))


def test_a_changed_constant_of_a_called_function_is_a_change() -> None:
    changed = [
        PLAIN.replace("RATE = 3", "RATE = 4"),
        PLAIN.replace("x * RATE", "x + RATE"),
        PLAIN.replace("(row)", "(-row)"),
    ]
    prints = {fingerprint_of(made(source)) for source in [PLAIN, *changed]}
    assert len(prints) == 4


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    assert fingerprint_of(made("def stream(n):\n    return stream(n - 1)\n"))


def test_a_wrapped_function_is_followed() -> None:
    class Udf:
        def __init__(self, func: Callable[..., object]) -> None:
            self.func = func

    one, two = (fingerprint_of(Udf(made(f"def stream(x):\n    return x + {n}\n")).func) for n in (1, 2))
    assert one != two
