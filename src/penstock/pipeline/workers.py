"""The process that forks Spark's Python workers: PySpark's own, but who is hung up on ends without a traceback.

Whenever a query or a session ends, the JVM closes the sockets of idle workers, and each would print ten lines into the
user's terminal. Every other error is printed as ever.
Cost: this reaches into `pyspark.daemon`, which calls `traceback.print_exc` where a worker dies.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon


def print_unless_hung_up() -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


if __name__ == "__main__":
    vars(daemon)["traceback"] = SimpleNamespace(print_exc=print_unless_hung_up)
    daemon.manager()
