"""Rules of this code base that no linter knows, each a function from one parsed file to its breaches.

Clock     only `core/clock.py` reads a clock, sleeps or draws randomness; tests never sleep.
Sockets   sockets and asyncio stand only in the broker's server and in the connection of the protocol's client.
Files     the log opens files through `core/files.py` alone.
Proof     the verifier imports core, the protocol's client and the standard library, nothing else.
E2E       end-to-end tests import nothing of penstock.
Names     no file or class name has a word that says nothing.
Size      a function has at most 60 lines, a module at most 500, its tables not counted.
Asserts   sources raise typed errors; `assert` vanishes under -O.
Errors    an error is raised with every field that its message shows.
Limit: names are followed through imports, not through assignments.
"""

from __future__ import annotations

import ast
import re
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ROWS

CLOCK_FILE = "src/penstock/core/clock.py"
CLOCK_MODULES = frozenset({"random", "secrets", "time"})
CLOCK_CALLS = frozenset(
    {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.urandom", "uuid.uuid1", "uuid.uuid4"}
)
SEEDED = "random.Random"  # numbers from a given seed are no randomness
SOCKET_FILES = frozenset({"src/penstock/broker/server.py", "src/penstock/protocol/connection.py"})
SOCKET_MODULES = frozenset({"asyncio", "selectors", "socket", "socketserver", "ssl", "uvloop"})
OPENING_CALLS = frozenset({"open", "read_bytes", "read_text", "write_bytes", "write_text"})
PROOF_IMPORTS = ("penstock.core", "penstock.protocol.client", "penstock.views.proof")
EMPTY_WORDS = frozenset({"base", "common", "helper", "helpers", "impl", "manager", "managers", "misc", "util", "utils"})
VERSION_WORDS = frozenset({"final", "new", "old", "v1", "v2", "v3"})
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One Python file: its path from the root of the checkout, its text, its tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> SourceFile:
        return cls(path, text, ast.parse(text))

    @property
    def is_source(self) -> bool:
        return self.path.startswith("src/")


Check = Callable[[SourceFile], Iterator[str]]


def find_breaches(file: SourceFile) -> list[str]:
    """Every breach of every rule, as `path:line: what`."""
    return [breach for check in CHECKS for breach in check(file)]


def read_files(root: Path, folders: Sequence[str]) -> Iterator[SourceFile]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield SourceFile.parse(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def check_clock(file: SourceFile) -> Iterator[str]:
    if not file.is_source or file.path == CLOCK_FILE:
        return
    for node, module in _imports(file.tree):
        if module.partition(".")[0] in CLOCK_MODULES and module != SEEDED:
            yield _at(file, node, f"{module} belongs to core/clock.py; take a Clock")
    for node, name in _calls(file.tree):
        is_unseeded = name == SEEDED and not node.args
        if is_unseeded or name.startswith("numpy.random.") or ".".join(name.split(".")[-2:]) in CLOCK_CALLS:
            yield _at(file, node, f"{name} belongs to core/clock.py; take a Clock")


def check_sleeping_test(file: SourceFile) -> Iterator[str]:
    if not file.path.startswith("tests/"):
        return
    for node, name in _calls(file.tree):
        if name in {"time.sleep", "asyncio.sleep"} and not _is_zero(node):
            yield _at(file, node, f"a test must not call {name}; wait for the event, or move a ManualClock")


def check_sockets(file: SourceFile) -> Iterator[str]:
    if not file.is_source or file.path in SOCKET_FILES or file.path.startswith("src/penstock/testing/"):
        return
    for node, module in _imports(file.tree):
        if module.partition(".")[0] in SOCKET_MODULES:
            yield _at(file, node, f"{module} belongs to broker/server.py or protocol/connection.py")


def check_files_of_the_log(file: SourceFile) -> Iterator[str]:
    if not file.path.startswith("src/penstock/log/"):
        return
    for node, name in _calls(file.tree):
        if name.rpartition(".")[2] in OPENING_CALLS and not name.startswith(("self.", "files.", "_files.")):
            yield _at(file, node, f"{name} opens a file; the log takes a Files")


def check_proof(file: SourceFile) -> Iterator[str]:
    if not re.match(r"src/penstock/views/proof\w*\.py$", file.path):
        return
    for node, module in _imports(file.tree):
        allowed = module.startswith(PROOF_IMPORTS) or module.partition(".")[0] in sys.stdlib_module_names
        if not allowed:
            yield _at(file, node, f"the proof shares no code: it must not import {module}")


def check_end_to_end(file: SourceFile) -> Iterator[str]:
    if not file.path.startswith("tests/e2e/"):
        return
    for node, module in _imports(file.tree):
        if module.partition(".")[0] == "penstock":
            yield _at(file, node, "an end-to-end test uses what a user has: the command and the network")


def check_names(file: SourceFile) -> Iterator[str]:
    for word in Path(file.path).stem.split("_"):
        if word in EMPTY_WORDS | VERSION_WORDS:
            yield f"{file.path}:1: the word {word!r} in a file name says nothing"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef):
            for word in re.findall(r"[A-Z][a-z0-9]*", node.name):
                if word.lower() in EMPTY_WORDS | VERSION_WORDS:
                    yield _at(file, node, f"the word {word!r} in the class name {node.name} says nothing")


def check_size(file: SourceFile) -> Iterator[str]:
    lines = file.text.count("\n") - sum(_table_lines(node) for node in file.tree.body)
    if lines > MODULE_LINES_MAX:
        yield f"{file.path}:1: {lines} lines; at {MODULE_LINES_MAX} there are two subjects inside"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield _at(file, node, f"{node.name} has {length} lines; {FUNCTION_LINES_MAX} is the end")


def check_asserts(file: SourceFile) -> Iterator[str]:
    if file.is_source:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Assert):
                yield _at(file, node, "assert in a source; call invariant() or raise an error of the table")


def check_error_fields(file: SourceFile) -> Iterator[str]:
    for node, name in _calls(file.tree):
        if name == "fail" and file.is_source:
            yield from (_at(file, node, problem) for problem in _error_problems(node))


CHECKS: Sequence[Check] = (
    check_clock,
    check_sleeping_test,
    check_sockets,
    check_files_of_the_log,
    check_proof,
    check_end_to_end,
    check_names,
    check_size,
    check_asserts,
    check_error_fields,
)


def _error_problems(call: ast.Call) -> Iterator[str]:
    code = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], ast.Constant) else None
    if not isinstance(code, str):
        return
    if code not in ROWS:
        yield f"there is no error {code!r} in the table"
        return
    given = {keyword.arg for keyword in call.keywords}
    shown = ROWS[code].message + ROWS[code].next_step
    missing = sorted({field for _, field, _, _ in string.Formatter().parse(shown) if field} - given)
    if missing and None not in given:
        yield f"error {code!r} shows {', '.join(missing)}, which this call does not give"


def _imports(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node, _imported(node.module, alias.name)) for alias in node.names)


def _imported(module: str, name: str) -> str:
    """`from penstock.views import proof` imports a module; `from penstock.core.units import Offset` a name of one."""
    return f"{module}.{name}" if module in {"penstock", "penstock.views", "penstock.protocol", "random"} else module


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the dotted name it is made by, imported names in full."""
    full = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock"))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = _dotted(node.func).partition(".")
            yield node, full.get(first, first) + dot + rest


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _table_lines(node: ast.stmt) -> int:
    """The lines of a table at the top level: data is one subject, however long it is."""
    is_table = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.List | ast.Tuple)
    return (node.end_lineno or node.lineno) - node.lineno + 1 if is_table else 0


def _at(file: SourceFile, node: ast.AST, what: str) -> str:
    return f"{file.path}:{getattr(node, 'lineno', 1)}: {what}"
