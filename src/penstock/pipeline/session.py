"""The Spark session of a pipeline: loopback only, UTC, exact decimals, nothing downloaded.

Each setting that is not obvious says why. A figure behind a setting stands in docs/design.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.java import java_home
from penstock.pipeline.source import PenstockSource

_LOGGING = Path(__file__).with_name("log4j2.properties")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A batch is held on the driver; past this bound it is refused and taken in smaller parts.
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # Money: an overflow or a bad cast is an error and never a null or a rounded product.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # Over TCP each Python task waits a constant 40 ms for its input.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "penstock.pipeline.workers",
    "spark.sql.shuffle.partitions": "2",
    # The default manager starts two processes for each checkpoint file on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # VFORK: the same processes, started quickly. The stack: Spark matches long texts with regexes that recurse.
    # The first compiler and the serial collector leave the cores to the work: views are a quarter fresher on two cores.
    # What goes wrong reaches the driver as an exception, and is told in one line; the log would add a hundred.
    "spark.driver.extraJavaOptions": (
        "-Djdk.lang.Process.launchMechanism=VFORK -Xss4m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        f" -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    ),
    # The ledger says when a query may stop; a stop that waits for ever would hide a dead batch.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.artifact.isolation.enabled": "false",
}
TASK_TRIES = 4
"""A local master without this number retries no task, and a Python worker that died would stop the query."""


def open_session(name: str, *, home: Path, cores: int | None) -> SparkSession:
    """Start Spark in this process, or return the session that stands."""
    scratch = home / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(name).master(f"local[{cores or os.cpu_count() or 1},{TASK_TRIES}]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    with _java_home(java_home(scratch=scratch)):
        session = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse")).getOrCreate()
    session.dataSource.register(PenstockSource)
    return session


@contextmanager
def _java_home(home: Path) -> Iterator[None]:
    """For the start of the JVM alone: what this process starts later shall find the machine's own."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
