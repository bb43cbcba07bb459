"""A PostgreSQL server of the tests' own: on loopback alone, in a temporary folder, gone at the end."""

import atexit
import contextlib
import functools
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from optuna.storages import RDBStorage

PASSWORD = "not-to-be-shown"
TEMPLATE = "with_tables"

WATCHER = """
import signal, subprocess, sys, threading
user = sys.argv[1]
server = subprocess.Popen(sys.argv[2:], user=int(user) if user else None)
def watch():
    sys.stdin.read()
    server.send_signal(signal.SIGINT)
threading.Thread(target=watch, daemon=True).start()
sys.exit(server.wait())
"""
"""Runs a server until its own input is closed: at the latest when the tests end, in whatever way."""

START_SECONDS = 60.0
"""A server starts in one or two, on a busy machine in more."""


class Server:
    """A server that is running; `url` is its address without a database."""

    def __init__(self, programs, folder, user):
        self._programs, self._folder, self._user = programs, folder, user
        self._process: subprocess.Popen[bytes] | None = None
        self.port: int | None = None

    @property
    def url(self):
        return f"postgresql+psycopg://postgres:{PASSWORD}@127.0.0.1:{self.port}"

    def start(self):
        """Starts it, on the port that it had; where that is taken or there was none, on a free one."""
        for _ in range(5):
            self.port = self.port or free_port()
            log = (self._folder / "log").open("ab")
            settings = {
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": "",
                "max_connections": "300",
            }
            server = [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port)]
            server += [f"--{name}={value}" for name, value in settings.items()]
            self._process = subprocess.Popen(
                [sys.executable, "-c", WATCHER, "" if self._user is None else str(self._user), *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the tests, which stop it.
                start_new_session=True,
            )
            log.close()
            if self._answers():
                return self
            self.port = None
        raise OSError(f"PostgreSQL does not start: {(self._folder / 'log').read_text()[-2000:]}")

    def stop(self):
        """Stops it, and ends the connections that there are."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(START_SECONDS)
            self._process = None

    def run(self, command, database="postgres"):
        """One statement, outside any transaction."""
        with psycopg.connect(f"{self.url.replace('+psycopg', '')}/{database}", autocommit=True) as connection:
            connection.execute(command)

    def _answers(self):
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                self.run("SELECT 1")
                return True
            time.sleep(0.05)
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def installations():
    """Folders with PostgreSQL's programs: those of the package that carries them, then the system's."""
    package = find_spec("pgserver")
    if package is not None and package.origin is not None:
        # By its path: to import it makes folders and, for root, users.
        yield Path(package.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def unprivileged():
    """The user to run it as: PostgreSQL refuses root. None: oneself."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise OSError("there is no user but root to run PostgreSQL as")


def reachable(programs, folder, user):
    """The programs, or a copy of them where that user may not enter their folder."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, user=user, cwd=folder)
    except PermissionError:
        # With the libraries that the package keeps beside it.
        package = programs.parent.parent
        shutil.copytree(package, folder / package.name)
        shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs")
        return folder / package.name / programs.relative_to(package)
    return programs


def new_server(programs):
    """A server with an empty database cluster and a password."""
    user = unprivileged()
    # Not among pytest's own folders, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="bmbo-postgresql-"))
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        if user is not None:
            os.chown(folder, user, -1)
            os.chown(password, user, -1)
        programs = reachable(programs, folder, user)
        subprocess.run(
            [
                *(programs / "initdb", "-D", folder / "data", "-U", "postgres", "--encoding=utf8", "--locale=C"),
                *("--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            text=True,
            user=user,
            cwd=folder,
        )
        server = Server(programs, folder, user).start()
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(folder)
        raise
    atexit.register(shutil.rmtree, folder)
    atexit.register(server.stop)
    return server


@functools.cache
def the_server():
    """The server of this run of the tests, or a sentence that says why there is none."""
    reasons = []
    for programs in installations():
        try:
            server = new_server(programs)
        except (OSError, subprocess.CalledProcessError) as error:
            reasons.append(f"{programs}: {getattr(error, 'stderr', None) or error}")
            continue
        # Optuna's tables are made once: a database is copied in a tenth of the time.
        server.run(f"CREATE DATABASE {TEMPLATE}")
        RDBStorage(f"{server.url}/{TEMPLATE}").engine.dispose()
        return server
    return f"no PostgreSQL could be started; {'; '.join(reasons) or 'neither pgserver nor the system has one'}"


def new_database(server):
    """The URL of an empty database with Optuna's tables."""
    name = f"test_{secrets.token_hex(6)}"
    server.run(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    return f"{server.url}/{name}"


@pytest.fixture
def postgresql():
    """A running server."""
    server = the_server()
    if isinstance(server, str):
        pytest.skip(server)
    return server


@pytest.fixture
def postgresql_url(postgresql):
    """An empty database of its own."""
    url = new_database(postgresql)
    yield url
    postgresql.run(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
