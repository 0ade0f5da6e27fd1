"""One connection to the database that keeps the views, and what its errors mean.

A connection is opened when it is first asked for and opened again after it broke; what held for the session that broke
(the lock of a pipeline) does not hold for the next: `locks` starts empty. A broken session is ended on the server too,
so that its transaction is decided and its locks are free before anything else is asked. The session is pinned to UTC,
ISO dates and exact floats, because keys of groups are digests of what the server prints.
Limits: one thread at a time; a pooler must pool by session, for the lock of a pipeline belongs to one.
Worst case: an unreachable host costs ten seconds, then a Retry error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import conninfo, errors

from penstock.core.clock import random_bytes
from penstock.core.errors import BugError, CallerError, PenstockError, RetryError, fail

if TYPE_CHECKING:
    from types import TracebackType

    from psycopg.rows import TupleRow

    Connection = psycopg.Connection[TupleRow]

CONNECT_TIMEOUT_S = 10
# A dead peer is noticed within half a minute; a transaction that stands still releases its locks within one.
_TCP = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
_SESSION = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "30s",
    "jit": "off",
}
_SAYS_WAIT = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots", "not yet accepting")


_END_SESSION = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


class Database:
    """A database by its address; `connection` is alive, or the answer is a Retry error.

    >>> Database("postgresql://ann:secret@db.example:5433/books")
    Database(db.example:5433/books)
    """

    def __init__(self, url: str, *, application: str = "penstock") -> None:
        self._url = url
        # The server keeps 63 bytes of ASCII, and the part that is ours alone comes last.
        self._application = application.encode("ascii", errors="replace").decode()[:50]
        self._session = ""
        self._connection: Connection | None = None
        self.where = describe(url)
        self.locks: set[int] = set()

    def __repr__(self) -> str:
        return f"Database({self.where})"

    @property
    def connection(self) -> Connection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self.close()
        session = f"{self._application}-{random_bytes(6).hex()}"
        self._connection = _connect(self._url, where=self.where, application=session)
        if self._session:
            self._connection.execute(_END_SESSION, (self._session,))
        # Only now: were the one before forgotten when a connection fails, its locks would be held against us.
        self._session = session
        return self._connection

    def close(self) -> None:
        self.locks.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what the driver raises inside into errors of ours."""
        try:
            yield
        except psycopg.Error as error:
            raise meaning(error, where=self.where) from error


def describe(url: str) -> str:
    """Host, port and database name of an address: what may be shown of it."""
    parts = _parts(url)
    host = str(parts.get("host") or parts.get("hostaddr") or "the local socket")
    port = f":{parts['port']}" if "port" in parts and not host.startswith("/") else ""
    name = f"/{parts['dbname']}" if "dbname" in parts else ""
    return host + port + name


def meaning(error: psycopg.Error, *, where: str) -> PenstockError:
    """The error of ours that says what the reader of the driver's error does next."""
    state = error.sqlstate or ""
    reason = _first_line(error.diag.message_primary or str(error))
    if isinstance(error, psycopg.InterfaceError) or is_lost(error):
        return fail(RetryError, "database-unreachable", where=where, reason=reason)
    if state[:2] in {"40", "53", "55", "58"} or state in {"57014", "25006", "25P03"}:
        return fail(RetryError, "database-busy", reason=reason)
    if state[:2] == "28" or state in {"3D000", "42501"}:
        return fail(CallerError, "database-refused", where=where, reason=reason)
    return fail(BugError, "database-statement-failed", reason=reason, sqlstate=state or type(error).__name__)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the session is gone, so that nobody knows what became of a commit under way."""
    state = error.sqlstate or ""
    ended = isinstance(error, errors.IdleInTransactionSessionTimeout) or state[:3] == "57P" or state[:2] == "08"
    return ended or (isinstance(error, psycopg.OperationalError) and not state)


def _connect(url: str, *, where: str, application: str) -> Connection:
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in _SESSION.items())
    parts: dict[str, str | int | None] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": application,
        **_TCP,
        **_parts(url),
    }
    parts["options"] = f"{parts.get('options', '')} {options}".strip()
    try:
        return psycopg.connect(conninfo.make_conninfo("", **parts), autocommit=True)
    except psycopg.Error as error:
        raise _refusal(error, where=where, password=str(parts.get("password", ""))) from None


def _refusal(error: psycopg.Error, *, where: str, password: str) -> PenstockError:
    text = str(error)
    reason = _first_line(text.replace(password, "***") if password else text)
    # The library gives no SQLSTATE here; a server that answers FATAL will say the same again, unless it says to wait.
    if "FATAL" in text and not any(word in text for word in _SAYS_WAIT):
        return fail(CallerError, "database-refused", where=where, reason=reason)
    return fail(RetryError, "database-unreachable", where=where, reason=reason)


def _parts(url: str) -> dict[str, str | int | None]:
    try:
        parts: dict[str, str | int | None] = {}
        parts |= {name: value for name, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        # What the library says quotes the address, and with it the password.
        raise fail(CallerError, "database-url-unreadable") from None
    # A password with a bare / or @ ends up in the other parts, where it would be shown.
    ports = str(parts.get("port", "")).replace(",", "")
    if (ports and not ports.isdigit()) or any("@" in str(parts.get(part, "")) for part in ("host", "dbname")):
        raise fail(CallerError, "database-url-unreadable")
    return parts


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if len(lines) < 2 or "FATAL" not in lines[-1] else lines[-1]


def storable(text: str) -> str:
    """Text that the database can hold: it has no NUL, and no half of a surrogate pair."""
    return text.encode("utf-8", errors="backslashreplace").decode().replace("\0", "\\0")
