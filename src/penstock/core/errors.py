"""What can go wrong: one root, six kinds, and one table of concrete errors.

The kind says what the reader does next; the row says what happened, where, and the command to run.
`docs/reference/errors.md` is generated from the table. Every error survives pickling.
"""

from __future__ import annotations

from dataclasses import dataclass


class PenstockError(Exception):
    """The root. `code` is stable; `fields` are the values the message was made from."""

    def __init__(self, code: str, fields: dict[str, object]) -> None:
        super().__init__(code, fields)
        self.code = code
        self.fields = fields

    @property
    def row(self) -> Row:
        return ROWS[self.code]

    def __str__(self) -> str:
        return f"{self.message} ({self.code})\n  next: {self.next_step}"

    @property
    def message(self) -> str:
        return self.row.message.format_map(_Shown(self.fields))

    @property
    def next_step(self) -> str:
        return self.row.next_step.format_map(_Shown(self.fields))


class CallerError(PenstockError):
    """Fix the call."""


class RetryError(PenstockError):
    """Wait, then try again."""


class FencedError(PenstockError):
    """Another instance took over: stop this one."""


class DataLossError(PenstockError):
    """What was asked for is gone: choose to reset or to stop."""


class CorruptError(PenstockError):
    """What is stored is damaged: repair it before starting."""


class BugError(PenstockError):
    """An invariant broke: report it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One concrete error. `wire_code` is Kafka's number where a client sees it."""

    kind: type[PenstockError]
    message: str
    next_step: str
    wire_code: int | None = None


class _Shown(dict[str, object]):
    """A missing field shows as its name, so that a message never hides the error that made it."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def fail(kind: type[PenstockError], code: str, /, **fields: object) -> PenstockError:
    """Make the error `code` of the table; the caller raises it.

    >>> fail(CallerError, "duration-unreadable", value="soon").code
    'duration-unreadable'
    """
    if code not in ROWS:
        raise KeyError(f"no error row {code!r} in penstock.core.errors.ROWS")
    if ROWS[code].kind is not kind:
        raise TypeError(f"error {code!r} is a {ROWS[code].kind.__name__}, not a {kind.__name__}")
    return kind(code, {name: _plain(value) for name, value in fields.items()})


def _plain(value: object) -> object:
    """Keep what pickles everywhere; anything else is kept as its text."""
    return value if isinstance(value, str | int | float | bool | bytes | None) else str(value)


ROWS: dict[str, Row] = {
    # core
    "invariant-broken": Row(BugError, "an invariant broke: {claim}; seen: {seen}", "report this with the line above"),
    "duration-unreadable": Row(
        CallerError, "{value!r} is not a duration", "write a whole number and a unit, for example '90 seconds'"
    ),
    "size-unreadable": Row(CallerError, "{value!r} is not a size", "write for example '64 MB' or a number of bytes"),
    "token-unreadable": Row(
        CallerError, "{value!r} is not a token", "pass a token exactly as produce or a view answered it"
    ),
    "setting-unknown": Row(
        CallerError,
        "unknown setting {name} in {where}{hint}",
        "remove it, or spell it as in docs/reference/settings.md",
    ),
    "setting-unreadable": Row(
        CallerError, "setting {name} in {where} cannot be {value!r}: {reason}", "correct the value in {where}"
    ),
    "settings-file-unreadable": Row(CallerError, "{path} cannot be read: {reason}", "correct the file, or remove it"),
    "schema-unreadable": Row(
        CallerError,
        "cannot read the schema {value!r} at {where!r}",
        "write flat columns as in 'id string, quantity decimal(18,6), at timestamp', each name once",
    ),
    # protocol
    "frame-malformed": Row(
        CorruptError,
        "the {what} is malformed: {reason}",
        "nothing to repair: the connection was closed; look for the client or proxy that sent it",
        wire_code=42,
    ),
    "frame-too-large": Row(
        CallerError,
        "a frame of {size} bytes is larger than the {bytes_max} bytes allowed",
        "send smaller requests, or raise max_request_bytes",
    ),
    "message-unencodable": Row(BugError, "{what} does not fit its format: {reason}", "report this with the line above"),
    "api-version-unsupported": Row(
        CallerError,
        "api {key} has no version {version} here",
        "use a version that ApiVersions offers",
        wire_code=35,
    ),
    "batch-corrupt": Row(
        CorruptError, "the record batch is damaged: {reason}", "send it again, or check the log", wire_code=2
    ),
    "batch-refused": Row(
        CallerError, "the record batch is not acceptable: {reason}", "correct the producer", wire_code=87
    ),
    "batch-format-old": Row(
        CallerError,
        "the record batch has format {magic}, only format 2 is accepted",
        "use a producer of Kafka 0.11 or later",
        wire_code=43,
    ),
    "batch-codec-unknown": Row(
        CallerError,
        "the record batch is compressed with codec {codec}, which does not exist",
        "use gzip, snappy, lz4 or zstd",
        wire_code=76,
    ),
    "batch-timestamp-type": Row(
        CallerError,
        "the record batch claims the broker's timestamps, which no producer can give",
        "send the batch with create time",
        wire_code=32,
    ),
    "records-unreadable": Row(
        CorruptError,
        "the records of the batch at offset {offset} cannot be read: {reason}",
        "look at the partition with `penstock log` and repair or skip the batch",
    ),
    "codec-unknown": Row(CallerError, "{value!r} is not a compression codec", "use none, gzip, snappy, lz4 or zstd"),
    "compression-unreadable": Row(
        CorruptError, "{codec} data cannot be decompressed: {reason}", "skip the batch, or repair the log"
    ),
    "compression-bomb": Row(
        CorruptError,
        "{size} bytes of {codec} data decompress to more than {bytes_max} bytes",
        "find the producer that sent it, and skip the batch",
    ),
    "bootstrap-unreadable": Row(
        CallerError, "{value!r} is not a list of brokers", "write host:port, several of them with commas between"
    ),
    "broker-unreachable": Row(
        RetryError,
        "no broker answers at {address}: {reason}",
        "start one with `penstock broker --listen {address}`, or set PENSTOCK_BOOTSTRAP to where one is",
    ),
    "broker-not-ready": Row(
        RetryError, "the broker cannot answer for {subject} now: {error}{detail}", "wait, then try again"
    ),
    "broker-refused": Row(CallerError, "the broker refused {subject}: {error}{detail}", "correct the request"),
    "broker-versions-apart": Row(
        CallerError,
        "the broker offers versions {first} to {last} of {api}, and none of these is known here",
        "use a broker of Kafka 2.1 or later, or a newer Penstock",
    ),
    "topic-unknown": Row(
        CallerError,
        "there is no topic {topic}",
        "penstock topics create {topic}, or check the name with penstock topics list",
        wire_code=3,
    ),
    "topic-exists": Row(CallerError, "topic {topic} exists already", "penstock topics describe {topic}", wire_code=36),
    "partition-absent": Row(
        CallerError,
        "topic {topic} has no partition {partition}, it has {count}",
        "penstock topics describe {topic}",
        wire_code=3,
    ),
    "partition-leaderless": Row(
        RetryError, "partition {topic}-{partition} has no leader now", "wait, then try again", wire_code=5
    ),
    "produce-unconfirmed": Row(
        RetryError,
        "a batch for {partition} may or may not have been stored: {reason}",
        "read the end of the partition before sending it again, or number batches with a producer id",
    ),
    "produce-fenced": Row(
        FencedError, "the producer of {partition} was replaced by a newer one: {error}", "stop this producer"
    ),
    "offset-out-of-range": Row(
        DataLossError,
        "offset {offset} of {partition} is not in the log",
        "penstock topics describe shows what the log holds: choose an offset, or start from the earliest",
        wire_code=1,
    ),
    "range-beyond-log": Row(
        DataLossError,
        "records of {range} are gone: the log ends at {high_watermark}",
        "look for what cut the log, then choose: restore it, or go on from its end",
    ),
    "fetch-stalled": Row(
        RetryError, "the broker gives no records of {range} from offset {position} on", "wait, then try again"
    ),
    # log
    "disk-full": Row(
        RetryError,
        "no room for {path}: {free} bytes are free",
        "free some disk space; writes go on by themselves then, reads never stopped",
        56,
    ),
    "file-forbidden": Row(CallerError, "cannot {action} {path}: {reason}", "give this user the right to write there"),
    "sync-failed": Row(
        CorruptError,
        "the disk did not take what was written to {path}: {reason}",
        "check the disk, then start again: the start reads back what the disk really holds",
    ),
    "storage-failed": Row(CorruptError, "cannot {action} {path}: {reason}", "check the disk, then start again"),
    "data-folder-in-use": Row(
        CallerError,
        "{path} is in use by process {process}",
        "stop that broker, or name another folder with --data",
    ),
    "spark-gone": Row(
        RetryError,
        "the process in which Spark ran for pipeline {pipeline} is gone",
        "penstock run FILE goes on from the last committed batch",
    ),
    "log-damaged": Row(
        CorruptError,
        "{partition} is damaged in {file} at byte {position}: {reason}",
        "nothing was removed; put back the file from a copy, or cut it by hand at that byte and start again",
        2,
    ),
    "records-lost": Row(
        DataLossError,
        "{partition} has lost the records {start} to {end} (exclusive)",
        "put back the files from a copy, or go on: later records keep their offsets",
        1,
    ),
    "offset-outside": Row(
        DataLossError,
        "{partition} has no offset {offset}: it holds {start} to {end} (exclusive)",
        "start from the earliest or the latest offset",
        1,
    ),
    "partition-gone": Row(RetryError, "{partition} was deleted meanwhile", "look the topic up again", 3),
    "producer-fenced": Row(
        FencedError,
        "producer {producer_id} writes to {partition} with epoch {epoch}, and {current} is in use",
        "stop this instance: another one has taken over",
        47,
    ),
    "sequence-gap": Row(
        CallerError,
        "producer {producer_id} sent sequence {sequence} to {partition}, and {expected} comes next",
        "send the missing batches first",
        45,
    ),
    # broker
    "partition-unknown": Row(
        CorruptError,
        "{partition} holds records, and no topic of this log is known to own them",
        "nothing was removed; move {path} away if the records are not wanted",
    ),
    "listen-unreadable": Row(
        CallerError, "{value!r} is not an address to listen on", "write for example --listen 127.0.0.1:9092"
    ),
    "listen-unspecified": Row(
        CallerError,
        "{host} names every address of this machine, and clients could not be told which one to dial",
        "listen on the one address that clients use",
    ),
    "listen-not-loopback": Row(
        CallerError,
        "{host} can be reached from other machines, and there are no passwords yet",
        "listen on 127.0.0.1, or add --allow-remote if everybody who reaches it may read and write everything",
    ),
    "listen-failed": Row(CallerError, "cannot listen on {host}:{port}: {reason}", "name another address with --listen"),
    "port-taken": Row(
        CallerError,
        "port {port} of {host} is taken by another program",
        "stop it, or name another port: `penstock broker --listen {host}:0` picks a free one",
    ),
    "batch-too-large": Row(
        CallerError,
        "a record batch of {size} bytes is larger than the {bytes_max} that topic {topic} takes",
        "send smaller batches, or make the topic with a larger max.message.bytes",
        wire_code=10,
    ),
    "batch-transactional": Row(
        CallerError,
        "topic {topic} cannot take a transaction: this broker has none yet",
        "leave transactional.id unset",
        wire_code=42,
    ),
    "timestamp-ahead": Row(
        CallerError,
        "a record for topic {topic} is {ahead} s ahead of the broker's clock",
        "correct the clock of the producer, or the unit of its timestamps: they are milliseconds",
        wire_code=32,
    ),
    # views
    "database-url-unreadable": Row(
        CallerError,
        "the database address cannot be read",
        "set PENSTOCK_DATABASE_URL to postgresql://user:password@host:5432/name, with % escapes in the password",
    ),
    "database-unreachable": Row(
        RetryError,
        "the database at {where} cannot be reached: {reason}",
        "check that Postgres runs there, then `penstock status`; unset PENSTOCK_DATABASE_URL for the embedded one",
    ),
    "database-refused": Row(
        CallerError,
        "the database at {where} refuses: {reason}",
        "correct user, password or database name in PENSTOCK_DATABASE_URL, then `penstock status`",
    ),
    "database-busy": Row(RetryError, "the database could not finish this now: {reason}", "wait, then try again"),
    "database-statement-failed": Row(
        BugError, "the database rejects a statement of ours: {reason} ({sqlstate})", "report this with the line above"
    ),
    "database-schema-newer": Row(
        CallerError,
        "the database at {where} holds schema version {found}, this release knows {known}",
        "install the release of penstock that wrote it, or a later one",
    ),
    "database-not-started": Row(
        RetryError,
        "the embedded database in {folder} does not start: {reason}",
        "read {folder}/server.log, free disk space or memory, and try again",
    ),
    "pipeline-busy": Row(
        FencedError,
        "pipeline {pipeline} is already run by process {pid} on {host}",
        "stop that process, or start with --take-over",
    ),
    "pipeline-fenced": Row(
        FencedError,
        "pipeline {pipeline} was taken over: this process holds epoch {epoch}, the ledger is at {current}",
        "stop this process; `penstock status` names the one that runs it now",
    ),
    "pipeline-changed": Row(
        CallerError,
        "pipeline {pipeline} is registered with another definition: {changed} changed",
        "penstock run {file} --as NAME",
    ),
    "pipeline-unknown": Row(CallerError, "there is no pipeline {pipeline} in the database", "penstock status"),
    "view-taken": Row(
        CallerError,
        "the name {view} belongs to {owner}",
        "choose another name for the view of pipeline {pipeline}",
    ),
    "view-name-long": Row(
        CallerError,
        "the name {name!r} in view {view} is longer than the {bytes_max} bytes that Postgres keeps",
        "choose a shorter name",
    ),
    "view-unknown": Row(CallerError, "there is no view {view}{hint}", "penstock views list"),
    "batch-contested": Row(
        RetryError,
        "batch {batch} of pipeline {pipeline} met identities of {topic} that were stored after it looked them up",
        "the pipeline decides the batch again",
    ),
    "batch-misplaced": Row(
        FencedError,
        "batch {batch} of pipeline {pipeline} starts at {start} in {topic}-{partition}, the ledger ends at {applied}",
        "stop this process; `penstock status` names the one that runs the pipeline now",
    ),
    "window-beyond-calendar": Row(
        CallerError,
        "the window of view {view} around {value} reaches beyond the years 1 to 9999",
        "filter such times out in the stream's function, or correct them where they are produced",
    ),
    "proof-topic-undeclared": Row(
        CallerError,
        "the ledger of the pipeline holds positions of topic {topic}, which the pipeline file does not declare",
        "penstock views verify --file FILE, with the file that the pipeline runs",
    ),
    # pipeline
    "float-sum-refused": Row(
        CallerError,
        "{aggregate} of a {type} would depend on the order of the rows",
        "declare the column as a decimal, for example decimal(18,6), or cast it in the stream",
    ),
    "aggregate-needs-number": Row(
        CallerError,
        "{aggregate} of a {type} means nothing",
        "name a column of integers or decimals, or use count, min or max",
    ),
    "name-unusable": Row(
        CallerError,
        "{name!r} cannot name a {kind}",
        "use lower-case letters, digits and underscores, at most 48, not starting with a digit",
    ),
    "declared-twice": Row(CallerError, "pipeline {pipeline} declares the {kind} {name} twice", "give one another name"),
    "window-empty": Row(CallerError, "a window of {value!r} holds nothing", "give it a size, for example '1 minute'"),
    "stream-reads-unknown": Row(
        CallerError,
        "a stream of pipeline {pipeline} reads {value}, which this pipeline does not declare",
        "name what pipeline.topic(...) or @pipeline.stream(...) of the same pipeline returned",
    ),
    "stream-reads-nothing": Row(
        CallerError,
        "a stream of pipeline {pipeline} reads nothing",
        "name its topics or streams: @pipeline.stream(requests)",
    ),
    "view-reads-unknown": Row(
        CallerError,
        "view {view} reads {value}, which this pipeline does not declare",
        "pass what pipeline.topic(...) or @pipeline.stream(...) of the same pipeline returned",
    ),
    "view-with-two-windows": Row(
        CallerError, "view {view} has two windows among its keys", "declare a view for each window"
    ),
    "column-undeclared": Row(
        CallerError,
        "topic {topic} has no column {column} in its schema",
        "use one of: {known}; or add it to schema=",
    ),
    "identity-unusable": Row(
        CallerError,
        "topic {topic} has no usable identity: {value}",
        "name the columns that tell one event from another, each once: identity=['source', 'id']",
    ),
    "event-time-unusable": Row(
        CallerError,
        "the event time {column} of topic {topic} is a {type}",
        "declare the column as timestamp in schema=",
    ),
    "column-reserved": Row(
        CallerError, "topic {topic} declares a column {column}, which every stream has already", "rename the column"
    ),
    "pipeline-without-view": Row(
        CallerError, "pipeline {pipeline} declares no view, so it would write nothing", "add pipeline.view(...)"
    ),
    "pipeline-file-missing": Row(CallerError, "there is no pipeline file {path}", "check the path"),
    "pipeline-file-broken": Row(CallerError, "pipeline file {path} does not load: {reason}", "correct the file"),
    "pipeline-not-one": Row(
        CallerError, "pipeline file {path} declares {count} pipelines", "declare one Pipeline(...) in a file"
    ),
    "stream-refused-by-spark": Row(
        CallerError, "the function of stream {stream} does not fit its columns: {reason}", "penstock plan FILE"
    ),
    "stream-function-broken": Row(
        CallerError, "the function of stream {stream} raises before it sees a row: {reason}", "correct the function"
    ),
    "stream-returns-no-frame": Row(
        CallerError, "the function of stream {stream} returns a {value}", "return a DataFrame"
    ),
    "stream-step-refused": Row(
        CallerError, "stream {stream} uses {step}, which has no exact meaning here", "{instead}"
    ),
    "stream-loses-position": Row(
        CallerError,
        "stream {stream} loses the column {column}, which tells where each row came from",
        "name it in the select: frame.select(..., '{column}')",
    ),
    "stream-changes-position": Row(
        CallerError, "stream {stream} changes the column {column}", "pass {column} on as it is"
    ),
    "view-columns-unusable": Row(
        CallerError,
        "view {view} needs columns with different names and at least one aggregate; it has: {columns}",
        "rename one, or add for example columns={{'rows': agg.count()}}",
    ),
    "view-column-unusable": Row(
        CallerError,
        "view {view} cannot use column {column} of {stream}: it is not there, or of a type no view holds",
        "use one of: {known}",
    ),
    "view-without-event-time": Row(
        CallerError,
        "view {view} has a window, but {stream} carries not one event time (found: {found})",
        "keep exactly one column that is an event_time= of a topic",
    ),
    "view-aggregate-unusable": Row(
        CallerError, "column {column} of view {view} is {value}", "use agg.count(), agg.sum('column') and the like"
    ),
    "proof-file-differs": Row(
        CallerError,
        "{path} is not what pipeline {pipeline} ran: {changed} changed",
        "penstock views verify --file the file as it was",
    ),
    "proof-of-nothing": Row(
        CallerError,
        "the database at {where} holds no pipeline, so there is nothing to prove",
        "name the database that the pipeline writes to: PENSTOCK_DATABASE_URL or PENSTOCK_HOME",
    ),
    "function-raises-often": Row(
        CallerError,
        "a function raises on nearly all of a batch, or on more than {most} records; it starts at {position}: {reason}",
        "correct the function and run again, or raise the setting set_aside_max",
    ),
    "function-raises-alone": Row(
        CallerError,
        "a function raises, and no single record is to blame; the batch starts at {position}: {reason}",
        "correct the function and run again",
    ),
    "position-gone": Row(
        DataLossError,
        "the ledger stands at offset {offset} of {place}, but the log holds [{first}, {last})",
        "bring the topic back, or read what is left into views of their own: penstock run FILE --as NAME",
    ),
    "query-ended": Row(
        RetryError, "the Spark query of pipeline {pipeline} ended: {reason}", "it is started again from the ledger"
    ),
    "log-unreadable": Row(
        CorruptError,
        "pipeline {pipeline} cannot read what the log holds: {reason}",
        "repair the log, or read what is left into views of their own: penstock run FILE --as NAME",
    ),
    "batch-beyond-driver": Row(
        RetryError,
        "the rows of a batch of pipeline {pipeline} are more than the driver holds",
        "it goes on with at most {records_max} records a batch",
    ),
    "outbox-not-published": Row(
        RetryError, "{count} messages of the outbox were not published: {reason}", "they stay and are sent again"
    ),
    "source-without-topic": Row(
        CallerError, "the data source penstock was given no topic", "add .option('topic', NAME)"
    ),
    "source-option-unreadable": Row(
        CallerError, "option {option} of the data source penstock cannot be {value!r}", "write for example '{form}'"
    ),
    "record-undecodable": Row(
        CorruptError,
        "record {where} does not decode: {reason}",
        "add '_problem string' to the schema to get such records as rows",
    ),
    "java-missing": Row(
        CallerError,
        "no Java {least} or later in JAVA_HOME or PATH, and none came with the install",
        "pip install 'penstock[spark]'",
    ),
    # cli
    "topic-config-unreadable": Row(
        CallerError, "{value!r} is not a setting of a topic", "write name=value, for example segment.bytes=1048576"
    ),
    "input-unreadable": Row(CallerError, "{path} cannot be read: {reason}", "name a file of lines that you may read"),
    "key-missing": Row(
        CallerError,
        "the line {line!r} has no {separator!r} after a key",
        "correct the line, or leave out --key-separator",
    ),
    "produce-failed": Row(
        RetryError,
        "{failed} of {sent} records for topic {topic} were not acknowledged: {reason}",
        "check the broker with `penstock topics list`, then send the rest again",
    ),
    "partition-missing": Row(
        CallerError,
        "topic {topic} has no partition {partition}",
        "`penstock topics describe {topic}` shows its partitions",
    ),
    "position-unreadable": Row(
        CallerError, "{value!r} is not a position to read from", "write earliest, latest or an offset"
    ),
    "usage-wrong": Row(CallerError, "{reason}", "{command} --help"),
    "error-unexpected": Row(BugError, "{type}: {reason}", "report this with the traceback"),
    "extra-missing": Row(
        CallerError, "this command needs {package}, which is not installed", "pip install 'penstock[{extra}]'"
    ),
    # demo
    "demo-running": Row(
        CallerError,
        "a demo already runs in {home}: process {process}",
        "stop that one, or use another folder: PENSTOCK_HOME=FOLDER penstock demo",
    ),
    "demo-part-ended": Row(
        RetryError, "the {part} of the demo ended with status {status}: {reason}", "read {log}, then penstock demo"
    ),
    "demo-part-silent": Row(
        RetryError, "the {part} of the demo was not ready within {seconds} seconds", "read {log}, then penstock demo"
    ),
    "demo-record-refused": Row(
        RetryError, "the log did not take a record of the demo: {reason}", "read {log}, then penstock demo"
    ),
    "demo-not-taken": Row(
        RetryError,
        "the log has not taken {count} records of the demo within {seconds} seconds",
        "look for what else keeps this machine busy, then penstock demo with a smaller --rate",
    ),
    "demo-not-covered": Row(
        RetryError,
        "the view does not hold all records of the demo after {seconds} seconds: {behind} are missing",
        "look for what else keeps this machine busy, then penstock demo with a smaller --rate",
    ),
    "drill-stalled": Row(
        RetryError,
        "{seconds} seconds after the {part} was killed the view is not fresh again",
        "look for what else keeps this machine busy, then penstock demo --drill with a smaller --rate",
    ),
}
