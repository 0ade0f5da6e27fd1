"""Prove a pipeline's views from the log, with the user's own function as the only code of the pipeline that runs.

V1, V2   The log is read, decoded, judged and folded by `views/proof*`, which share no code with the pipeline; the
user's functions run over the accepted rows as Spark batches, and the answer says so.
Limit: accepted rows are held in memory, about 600 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.core.clock import RealClock
from penstock.core.declared import POSITION, Definition, Topic
from penstock.core.errors import CallerError, fail
from penstock.core.settings import Settings
from penstock.pipeline.frames import empty_rows, topic_frame
from penstock.pipeline.graph import Graph, bind, streams_of
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.session import open_session
from penstock.protocol.client import Client
from penstock.views import definition as definitions
from penstock.views.connection import Database
from penstock.views.proof import ProvedView, Report, log_differences, prove_view
from penstock.views.proof_judge import Event, Judged, judge
from penstock.views.read import Evidence, evidence, pipeline_of, status
from penstock.views.server import database_url

ROWS_MAX = 100_000
"""Accepted rows of each topic in one run of the functions, which look at one row at a time."""
SAID = "read, decoded, judged and folded apart from the pipeline; the functions of its streams were run by Spark"


def verify(name: str | None, *, file: Path | None, settings: Settings) -> list[Report]:
    """Prove one view, or with no name all views of all pipelines of the database."""
    with database_url(settings) as url, Database(url, application="penstock-verify") as database:
        pipelines = [pipeline_of(database, name)] if name else [str(row["pipeline"]) for row in status(database)]
        if not pipelines:
            raise fail(CallerError, "proof-of-nothing", where=database.where)
        spark = open_session("verify", home=settings.home, cores=settings.cores)
        try:
            return [
                prove(database, pipeline, only=name, file=file, bootstrap=settings.bootstrap, spark=spark)
                for pipeline in pipelines
            ]
        finally:
            spark.stop()


def prove(
    database: Database, pipeline: str, *, only: str | None, file: Path | None, bootstrap: str, spark: SparkSession
) -> Report:
    """Prove all of one pipeline's ledger, and its views or `only` one of them."""
    held = evidence(database, pipeline)
    graph = _graph(held.definition, file=file, spark=spark)
    with Client(bootstrap, clock=RealClock(), client_id="penstock-verify") as client:
        judged = judge(client, topics=held.definition.topics, ledger=held.ledger)
    return Report(
        pipeline=pipeline,
        cut=held.ledger.cut,
        views=tuple(_prove_views(graph, held, judged, only=only, spark=spark)),
        read=held.ledger.read,
        expected=judged.outcomes,
        recorded=held.ledger.outcomes,
        log_differences=tuple(log_differences(judged, ledger=held.ledger)),
        said=SAID,
    )


def _graph(registered: Definition, *, file: Path | None, spark: SparkSession) -> Graph:
    """The user's functions, from the file that the ledger names or the one given, if they are those that ran."""
    path = file or Path(registered.file)
    pipeline = load_pipeline(path)
    if pipeline.name != registered.name:
        pipeline.rename(registered.name)
    graph = bind(pipeline, spark=spark, file=path)
    changed = definitions.differences(registered, graph.definition)
    if changed:
        raise fail(CallerError, "proof-file-differs", path=path, pipeline=registered.name, changed=", ".join(changed))
    return graph


def _prove_views(
    graph: Graph, held: Evidence, judged: Judged, *, only: str | None, spark: SparkSession
) -> Iterator[ProvedView]:
    for view in held.definition.views:
        if only in (None, view.name):
            rows = _stream_rows(graph, judged, stream=view.stream, spark=spark)
            yield prove_view(view, rows=rows, actual=held.views[view.name].as_mappings())


def _stream_rows(graph: Graph, judged: Judged, *, stream: str, spark: SparkSession) -> Iterator[Mapping[str, object]]:
    """What the functions make of the accepted rows, so many at a time: what Spark hands over at once is bounded."""
    topics = graph.definition.topics
    most = max((len(rows) for rows in judged.accepted.values()), default=0)
    for start in range(0, max(1, most), ROWS_MAX):
        part = {t.name: judged.accepted.get(t.name, ())[start : start + ROWS_MAX] for t in topics}
        frames = streams_of(
            graph.pipeline, topics={t.name: topic_frame(spark, t, _rows(t, part[t.name])) for t in topics}
        )
        yield from _as_mappings(frames[stream].toArrow())


def _rows(topic: Topic, accepted: Sequence[Event]) -> pa.Table:
    schema = empty_rows(topic).schema
    values = zip(*(event.values for event in accepted), strict=True) if accepted else [()] * len(topic.columns)
    arrays = [pa.array(column, kind.type) for column, kind in zip(values, schema, strict=False)]
    positions = [
        {"topic": topic.name, "partition": event.partition, "offset": event.offset, "weight": 1, "cause": None}
        for event in accepted
    ]
    return pa.Table.from_arrays([*arrays, pa.array(positions, schema.field(POSITION).type)], schema=schema)


def _as_mappings(rows: pa.Table) -> Iterator[Mapping[str, object]]:
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()
