"""The embedded server of a home: shared, restarted, stopped, and closed to others."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from penstock.core.clock import RealClock
from penstock.core.errors import RetryError
from penstock.core.settings import read_settings
from penstock.views import read
from penstock.views.commit import commit
from penstock.views.connection import Database
from penstock.views.keeper import open_lock
from penstock.views.server import database_url, embedded
from tests.contract.views.scripts import VIEW, full_batch, take

CLOCK = RealClock()
Answer = TypeVar("Answer")
USER = """
import sys
from pathlib import Path
from penstock.views.server import embedded
with embedded(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""


def another_user(home: Path) -> subprocess.Popen[str]:
    """A process that uses the server until its standard input ends."""
    command = [sys.executable, "-c", USER, str(home)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postgresql://")
    return process


def wait_until_nobody_keeps(home: Path) -> None:
    with open_lock(home / "postgres" / "keeper.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def test_the_data_outlives_the_server(tmp_path: Path) -> None:
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (a int)")
    wait_until_nobody_keeps(tmp_path)
    assert not (tmp_path / "postgres" / "data" / "postmaster.pid").exists()
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_several_processes_share_one_server_and_a_killed_one_leaves_none_behind(tmp_path: Path) -> None:
    first, second = another_user(tmp_path), another_user(tmp_path)
    server = postmaster(tmp_path)
    first.kill()
    first.communicate()
    with embedded(tmp_path) as used, psycopg.connect(used.url) as connection:
        assert postmaster(tmp_path) == server
        assert connection.execute("SELECT 1").fetchone() == (1,)
    second.kill()
    second.communicate()
    wait_until_nobody_keeps(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def when_it_is_back(act: Callable[[], Answer]) -> Answer:
    """A Retry error says that nothing was done, so it may be tried again until the server is there."""
    for _ in range(300):
        try:
            return act()
        except RetryError:
            CLOCK.sleep(0.1)
    pytest.fail("the server did not come back")


def test_a_server_that_died_is_started_again_under_its_users(tmp_path: Path) -> None:
    with embedded(tmp_path) as server, Database(server.url) as database:
        registered = take(database)
        commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
        os.kill(postmaster(tmp_path), signal.SIGKILL)
        # The session may outlive its server for a moment, so either of these may be the one that meets the gap.
        when_it_is_back(lambda: commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK))
        assert when_it_is_back(lambda: read.rows(database, VIEW)).rows[0][1] == 2
        assert [row["batch"] for row in when_it_is_back(lambda: read.status(database))] == [2]


def test_a_server_whose_keeper_was_killed_is_taken_in_by_the_next_user(tmp_path: Path) -> None:
    user = another_user(tmp_path)
    orphan = postmaster(tmp_path)
    os.kill(_parent(orphan), signal.SIGKILL)
    wait_until_nobody_keeps(tmp_path)
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert postmaster(tmp_path) != orphan
    user.kill()
    user.communicate()
    wait_until_nobody_keeps(tmp_path)


def test_a_pid_file_that_names_another_process_is_no_obstacle(tmp_path: Path) -> None:
    with embedded(tmp_path):
        pid_file = tmp_path / "postgres" / "data" / "postmaster.pid"
        text = pid_file.read_text()
    wait_until_nobody_keeps(tmp_path)
    lines = text.splitlines(keepends=True)
    pid_file.write_text("".join([f"{os.getpid()}\n", *lines[1:]]))
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_nothing_is_opened_to_other_users_of_the_machine(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    above = [(parent, parent.stat().st_mode) for parent in tmp_path.parents]
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        folder = tmp_path / "postgres"
        assert mode(tmp_path) == mode(folder) == mode(folder / "data") == 0o700
        files = [path for path in folder.iterdir() if path.is_file()]
        assert {path.name: mode(path) for path in files} == dict.fromkeys((path.name for path in files), 0o600)
        assert mode(folder / "data" / ".s.PGSQL.5432") == 0o700
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert [(parent, parent.stat().st_mode) for parent in tmp_path.parents] == above


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_with_a_very_long_path_works(tmp_path: Path) -> None:
    home = tmp_path.joinpath(*["a folder with a long name and 'quotes' % in it"] * 3)
    with embedded(home) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_server_is_durable_and_ready_for_logical_replication(tmp_path: Path) -> None:
    wanted = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_level": "logical"}
    with embedded(tmp_path) as server, psycopg.connect(server.url) as connection:
        rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(wanted),))
        assert dict(rows.fetchall()) == wanted
        assert connection.execute("SHOW data_checksums").fetchone() == ("on",)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with embedded(tmp_path):
        pass
    wait_until_nobody_keeps(tmp_path)
    (tmp_path / "postgres" / "data" / "PG_VERSION").write_text("9.1\n")
    with pytest.raises(RetryError, match="database-not-started") as refused, embedded(tmp_path):
        pass
    assert "incompatible" in str(refused.value)
    assert "server.log" in refused.value.next_step


def test_a_database_that_the_settings_name_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://ann:hush@db.example/books")
    with database_url(read_settings(home=tmp_path)) as url:
        assert url == "postgresql://ann:hush@db.example/books"
    assert list(tmp_path.iterdir()) == []
