"""`tutti migrate` on both databases, and services that wait for it: real processes, killed and two at once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import MetaData, text
from tests.e2e.command import tutti
from tests.raynodes import free_ports
from tools import migration

from tutti.backbone import migrations
from tutti.backbone.connect import open_database
from tutti.backbone.database import Contention, DatabaseUnavailable
from tutti.backbone.direct import fetch
from tutti.backbone.migrations import History
from tutti.backbone.postgres.database import PostgresDatabase
from tutti.backbone.postgres.roles import ensure_member, ensure_roles
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.demo_test import eventually
from tutti.chassis.runtime.healthfile import awaits_upgrade
from tutti.upkeep.backup.databases import installed

SERVICES = ("ingest", "scheduler")
NEWEST = {each: installed()[each][-1].newest() for each in SERVICES}
CHASSIS = installed()[SERVICES[0]][0].newest()


@dataclass(frozen=True)
class Place:
    """A data directory whose databases have the first revision of the own tables of each of SERVICES."""

    folder: Path
    url: str

    def command(self, *arguments: str) -> list[str]:
        program = "from tutti.cli.app import run; run()"
        return [sys.executable, "-c", program, *arguments, "--data-dir", str(self.folder)]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TUTTI_DATABASE__URL": self.url}

    def tutti(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, as `tests.e2e.command` does; `started` is for those that are killed."""
        done = tutti(*arguments, "--data-dir", self.folder, extra={"TUTTI_DATABASE__URL": self.url})
        return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def revisions(self) -> dict[str, str]:
        found = {}
        for service in SERVICES:
            known = installed()[service]
            with closing(open_database(self.url, service)) as database:
                held = database.run(lambda tx, known=known: migrations.held(tx, known))  # type: ignore[misc]
            assert held.revisions[known[0]] == (CHASSIS if held.revisions[known[1]] == NEWEST[service] else "")
            found[service] = held.revisions[known[1]]
        return found


@pytest.fixture(params=["embedded", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> Place:
    folder = DataDir(tmp_path / "data")
    url = folder.database_url
    if request.param == "postgres":
        server = str(request.getfixturevalue("postgres_url"))
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{unique}"')
        url = urlsplit(server)._replace(path=f"/{unique}").geturl()
    for service in SERVICES:
        history = tmp_path / service / "migrations"
        history.mkdir(parents=True)
        shutil.copy(min(migration.history(service).glob("0001*.py")), history)
        with closing(open_database(url, service)) as database:
            database.create(MetaData(), [History(history, "the tables")])
    return Place(folder.path, url)


on_server = pytest.mark.parametrize("place", ["postgres"], indirect=True)


def test_tables_are_upgraded_once_and_a_check_says_before_that_they_have_to_be(place: Place) -> None:
    for option, code in (("--check", 1), ("--dry-run", 0)):
        told = place.tutti("migrate", option)
        assert told.returncode == code, told.stderr
        assert [line.split() for line in told.stdout.splitlines()] == [
            [service, "0001", "->", f"{NEWEST[service]},", "chassis", "none", "->", f"{CHASSIS},", "due"]
            for service in SERVICES
        ]
    assert place.revisions() == dict.fromkeys(SERVICES, "0001")
    done = place.tutti("migrate")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        [service, "0001", "->", f"{NEWEST[service]},", "chassis", "none", "->", CHASSIS] for service in SERVICES
    ]
    assert place.revisions() == NEWEST
    again = place.tutti("migrate", "--check", "-o", "json", "scheduler")
    newest = NEWEST["scheduler"]
    chassis = {"before": CHASSIS, "after": CHASSIS, "due": []}
    own = {"before": newest, "after": newest, "due": []}
    assert json.loads(again.stdout) == [{"service": "scheduler", **own, "chassis": chassis}]
    assert again.returncode == 0


@pytest.mark.parametrize("which", [0, 1], ids=["chassis", "own"])
def test_a_newer_database_stops_the_upgrade_of_all(place: Place, which: int) -> None:
    known = installed()["scheduler"]
    with closing(open_database(place.url, "scheduler")) as database:
        database.create(MetaData(), known)
        newer = text(f"UPDATE {known[which].versions} SET version_num = '9999'")  # noqa: S608
        database.run(lambda tx: tx.execute(newer) and None)
    refused = place.tutti("migrate")
    assert refused.returncode == 1
    assert f"{known[which].tables} have revision 9999" in refused.stderr
    assert "install the newer Tutti that upgraded them" in refused.stderr
    with closing(open_database(place.url, "ingest")) as database:
        held = database.run(lambda tx: migrations.held(tx, installed()["ingest"]))
    assert list(held.revisions.values()) == ["", "0001"]


def test_a_killed_upgrade_goes_on_where_it_was(place: Place) -> None:
    child = place.started("migrate")
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.communicate()
    assert place.revisions()["ingest"] == NEWEST["ingest"]
    assert place.revisions()["scheduler"] in ("0001", NEWEST["scheduler"])
    assert place.tutti("migrate").returncode == 0
    assert place.revisions() == NEWEST


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_the_directory_of_a_platform_that_runs_is_refused(place: Place) -> None:
    lock = DataDir(place.folder).lock("tutti up")
    refused = place.tutti("migrate", "--check")
    lock.release()
    assert refused.returncode == 1
    assert f"in use by process {os.getpid()} (tutti up)" in refused.stderr


@on_server
def test_two_upgrades_at_once_both_end_well(place: Place) -> None:
    children = [place.started("migrate") for _ in range(2)]
    ended = [child.communicate(timeout=400) for child in children]
    assert [child.returncode for child in children] == [0, 0], ended
    assert place.revisions() == NEWEST


@on_server
def test_tables_are_upgraded_as_the_owner_of_their_schema(place: Place, unique: str) -> None:
    owner, member = f"{unique}_owner", f"{unique}_member"
    ensure_roles(place.url, {owner: "secret"})
    ensure_member(place.url, member, "secret", [owner])
    with psycopg.connect(place.url, autocommit=True) as admin:
        admin.execute(f"ALTER SCHEMA ingest OWNER TO {owner}".encode())
        for (table,) in admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'ingest'").fetchall():
            admin.execute(f"ALTER TABLE ingest.{table} OWNER TO {owner}".encode())
        parts = urlsplit(place.url)
        restricted = parts._replace(netloc=f"{member}:secret@{parts.hostname}:{parts.port}").geturl()
        done = Place(place.folder, restricted).tutti("migrate", "ingest")
        assert done.returncode == 0, done.stderr
        owners = admin.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'ingest'").fetchall()
    assert owners == [(owner,)]
    assert place.revisions() == {"ingest": NEWEST["ingest"], "scheduler": "0001"}


@pytest.fixture
def old(postgres_url: str, unique: str, tmp_path: Path) -> Iterator[tuple[PostgresDatabase, History]]:
    """A database with less patience than the upgrade takes that its tables lack."""
    history = History(tmp_path / "history", "the tables")
    history.folder.mkdir()
    revision = "def upgrade(op):\n    op.execute({!r})\n"
    (history.folder / "0001_first.py").write_text(revision.format("CREATE TABLE things (name text)"))
    with closing(PostgresDatabase(postgres_url, schema=unique, deadline_seconds=0.2)) as database:
        database.create(MetaData(), [history])
        statement = "ALTER TABLE things ADD column size int; SELECT pg_sleep(2.5)"
        (history.folder / "0002_slow.py").write_text(revision.format(statement))
        yield database, history


def test_an_upgrade_may_take_longer_than_any_other_statement(old: tuple[PostgresDatabase, History]) -> None:
    database, history = old
    database.create(MetaData(), [history])
    assert database.run(lambda tx: migrations.held(tx, [history])).revisions == {history: "0002"}
    with pytest.raises(DatabaseUnavailable, match=r"took more than 0\.2 s"):
        database.run(lambda tx: tx.execute(text("SELECT pg_sleep(1)")) and None)


def test_who_holds_a_lock_that_an_upgrade_needs_is_named(
    old: tuple[PostgresDatabase, History], postgres_url: str, unique: str
) -> None:
    database, history = old
    with psycopg.connect(postgres_url) as other:
        other.execute(f"LOCK TABLE {unique}.things".encode())
        words = rf"locks there are held by process {other.info.backend_pid} of role {other.info.user}, since"
        with pytest.raises(Contention, match=words):
            database.create(MetaData(), [history])
    assert database.run(lambda tx: migrations.held(tx, [history])).revisions == {history: "0001"}


@contextmanager
def host(place: Place, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the services whose tables are older, and one that has pages and no tables yet."""
    overrides = ["--set", "database.migrate=wait", "--set", f"web.listen=127.0.0.1:{port}"]
    names = ["access", "pipeline", *SERVICES]
    command = [sys.executable, "-m", "tutti.platform.main", "--data-dir", str(place.folder), *overrides, *names]
    child = subprocess.Popen(command, env=place.environment(), stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def healthz(port: int) -> tuple[int, dict[str, str]]:
    try:
        with fetch(f"http://127.0.0.1:{port}/healthz", seconds=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def alive(child: subprocess.Popen[bytes]) -> bool:
    assert child.poll() is None, f"the host ended with {child.returncode}"
    return True


def waits(child: subprocess.Popen[bytes], place: Place) -> str:
    """The reason that the host reports once it waits."""
    return str(eventually(lambda: alive(child) and awaits_upgrade(place.folder), 60))


@on_server
def test_services_wait_for_the_upgrade_of_older_tables_and_go_on(place: Place) -> None:
    port = free_ports(1)[0]
    with host(place, port) as child:
        reason = waits(child, place)
        assert "scheduler: waits: " in reason
        assert f"the tables of scheduler have revision 0001, this version needs {NEWEST['scheduler']}" in reason
        assert f"the chassis tables of scheduler have revision none, this version needs {CHASSIS}" in reason
        status, reasons = healthz(port)
        assert (status, "run `tutti migrate`" in reasons["ingest"], reasons["access"]) == (503, True, "starts")
        told = place.tutti("status")
        assert (told.returncode, "run `tutti migrate`" in told.stderr) == (3, True), told
        assert place.revisions() == dict.fromkeys(SERVICES, "0001")
        assert place.tutti("migrate", "scheduler").returncode == 0
        eventually(lambda: "scheduler" not in awaits_upgrade(place.folder))
        assert place.tutti("migrate").returncode == 0
        eventually(lambda: alive(child) and DataDir(place.folder).endpoint(), 60)
        assert healthz(port) == (200, {})


@on_server
def test_a_signal_ends_the_wait_at_once(place: Place) -> None:
    with host(place, free_ports(1)[0]) as child:
        waits(child, place)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
    assert place.revisions() == dict.fromkeys(SERVICES, "0001")


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_files_that_a_waiting_service_would_lock_are_refused(place: Place) -> None:
    with host(place, free_ports(1)[0]) as child:
        assert child.wait(60) == 2
    assert place.revisions() == dict.fromkeys(SERVICES, "0001")
