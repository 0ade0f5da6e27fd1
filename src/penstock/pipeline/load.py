"""Load a user's pipeline file and find the one pipeline that it declares."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from penstock.core.errors import CallerError, PenstockError, fail
from penstock.pipeline.declare import Pipeline


def load_pipeline(path: Path, *, start_spark: Callable[[], object] | None = None) -> Pipeline:
    """Run the file as a module of its own name; its folder may be imported from, as Python does for a script.

    Spark is started for the few files that need it to be read at all: `@F.udf("string")` asks it what a string is.
    """
    if not path.is_file():
        raise fail(CallerError, "pipeline-file-missing", path=path)
    values = _run(path, start_spark=start_spark).values()
    found = list({id(value): value for value in values if isinstance(value, Pipeline)}.values())
    if len(found) != 1:
        raise fail(CallerError, "pipeline-not-one", path=path, count=len(found))
    return found[0]


def _run(path: Path, *, start_spark: Callable[[], object] | None) -> dict[str, object]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise fail(CallerError, "pipeline-file-missing", path=path)
    module = importlib.util.module_from_spec(spec)
    # Spark pickles functions of this module by name for its workers unless it is told to send them whole.
    _send_whole(path.stem, module)
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except PenstockError:
        raise
    except (Exception, SystemExit) as error:
        if start_spark is not None and "[SESSION_OR_CONTEXT_NOT_EXISTS]" in str(error):
            start_spark()
            return _run(path, start_spark=None)
        raise fail(CallerError, "pipeline-file-broken", path=path, reason=_last_line(error, path)) from error
    finally:
        sys.path.pop(0)
    return vars(module)


def _send_whole(name: str, module: object) -> None:
    """Without this a worker would try to import a module that only this process loaded."""
    from pyspark import cloudpickle

    sys.modules[name] = module  # type: ignore[assignment]  # it is one; importlib types it loosely
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _last_line(error: BaseException, path: Path) -> str:
    """Where in the user's own file it went wrong, and what was said."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines.append(error.lineno)
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"
