"""The Spark session of a pipeline: loopback only, UTC, exact decimals, nothing downloaded.

Each setting that is not obvious says why. A figure behind a setting stands in docs/design.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.java import java_home
from penstock.pipeline.source import PenstockSource

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
    "spark.sql.shuffle.partitions": "2",
    # The default manager starts two processes for each checkpoint file on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.extraJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK",
    # The ledger says when a query may stop; a stop that waits for ever would hide a dead batch.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # What goes wrong reaches the driver as an exception, and is told in one line; Spark would add a hundred.
    "spark.log.level": "FATAL",
    "spark.sql.artifact.isolation.enabled": "false",
}
TASK_TRIES = 4
"""A local master without this number retries no task, and a Python worker that died would stop the query."""


def open_session(name: str, *, home: Path, cores: int | None) -> SparkSession:
    """Start Spark in this process, or return the session that stands."""
    scratch = home / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home(scratch=scratch))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(name).master(f"local[{cores or os.cpu_count() or 1},{TASK_TRIES}]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse")).getOrCreate()
    session.dataSource.register(PenstockSource)
    return session
