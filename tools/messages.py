"""Write `src/penstock/protocol/messages/*.py` from the schemas: explicit classes that people and mypy can read.

python tools/messages.py            write the files
python tools/messages.py --check    fail when one of them is not what the schemas say
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.protocol.apis import ApiKey
from penstock.protocol.schema import Direction, Field, Schema, load_schema
from penstock.protocol.source import default_source

FOLDER = Path(__file__).parent.parent / "src" / "penstock" / "protocol" / "messages"
_PYTHON = {"bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes"}


def module_source(api: ApiKey) -> str:
    """The module of one API, formatted."""
    schema = load_schema(api.name.lower())
    structs = [*_structs(schema.request, api, schema, "Request"), *_structs(schema.response, api, schema, "Response")]
    body = "\n\n\n".join(structs)
    return _formatted(f"{_head(api, body)}\n\n\n{body}\n")


def _head(api: ApiKey, body: str) -> str:
    names = [name for name in ("NO_UUID", "Records", "Request", "Response") if _uses(body, name)]
    dataclasses = "dataclass, field" if "field(" in body else "dataclass"
    return f'''"""The messages of {api.name}: made by `tools/messages.py` from `schemas/{api.name.lower()}.json`."""

from __future__ import annotations

from dataclasses import {dataclasses}
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import {", ".join(names)}'''


def _uses(body: str, name: str) -> bool:
    return any(mark in body for mark in (f"({name})", f": {name}", f"= {name}"))


def _structs(direction: Direction, api: ApiKey, schema: Schema, parent: str) -> list[str]:
    """Inner structs first, so that a class never names one that is not there yet; the message last."""
    inner = [_class(name, fields, schema) for name, fields in reversed(direction.structs.items())]
    return [*inner[:-1], _message(inner[-1], api, direction.message, parent)]


def _message(source: str, api: ApiKey, name: str, parent: str) -> str:
    head = f"class {name}({parent}):\n    API: ClassVar[ApiKey] = ApiKey.{api.name}\n"
    return source.replace(f"class {name}:\n", head)


def _class(name: str, fields: tuple[Field, ...], schema: Schema) -> str:
    lines = [_line(field, schema) for field in fields] or ["    pass"]
    return "\n".join(["@dataclass(slots=True)", f"class {name}:", *lines])


def _line(field: Field, schema: Schema) -> str:
    return f"    {field.name}: {_type(field)} = {_default(field)}{_versions(field, schema)}"


def _type(field: Field) -> str:
    inner = field.type if field.is_struct else _PYTHON.get(field.type, "Records" if field.type == "records" else "int")
    whole = f"list[{inner}]" if field.is_list else inner
    return f"{whole} | None" if len(field.null_versions) else whole


def _default(field: Field) -> str:
    source = default_source(field)
    if source == "[]":
        return "field(default_factory=list)"
    return f"field(default_factory={field.type})" if source == f"{field.type}()" else source


def _versions(field: Field, schema: Schema) -> str:
    first = max(field.versions.start, schema.versions.start)
    last = min(field.versions.stop, schema.versions.stop) - 1
    if (first, last) == (schema.versions.start, schema.versions.stop - 1):
        return ""
    return f"  # version {first}" + ("" if first == last else "+" if last == schema.versions.stop - 1 else f"-{last}")


def _formatted(source: str) -> str:
    command = ["ruff", "format", "--stdin-filename", str(FOLDER / "message.py"), "-"]
    run = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    return subprocess.run(run, input=source, capture_output=True, text=True, check=True).stdout


def stale_files() -> list[Path]:
    """The modules that differ from what the schemas say."""
    paths = {api: FOLDER / f"{api.name.lower()}.py" for api in ApiKey}
    return [path for api, path in paths.items() if not path.exists() or path.read_text() != module_source(api)]


def main() -> int:
    stale = stale_files()
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path} is not what the schemas say: run python tools/messages.py\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(module_source(ApiKey[path.stem.upper()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
