"""The preflight: what is assumed of a machine and of stores, with stores that break it."""

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tutti.backbone import Blobs, Database, ManualClock
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.files import RealFiles
from tutti.chassis.runtime.dependencies import DependencyChecks
from tutti.chassis.service import Finding
from tutti.upkeep import preflight as module
from tutti.upkeep.preflight import Preflight


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[Blobs]:
    with closing(EmbeddedBlobs(tmp_path / "blobs")) as made:
        yield made


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(EmbeddedDatabase(tmp_path / "scheduler.db")) as made:
        yield made


class Overwriting:
    """A store that replaces blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._blobs.delete(key)
        self._blobs.put_if_absent(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)


class Hanging(Overwriting):
    """A store that does not answer."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        threading.Event().wait(60)


class LinkOverwrites(RealFiles):
    """A file system whose links replace files, as some of networks do."""

    def link(self, source: Path, target: Path) -> None:
        self.replace(source, target)


def preflight(folder: Path, blobs: Any, database: Database, **more: Any) -> list[Finding]:
    return Preflight(folder, blobs, {"scheduler": database}, **more).findings()


def test_a_machine_that_is_fit_is_one_finding_and_nothing_is_left_behind(
    tmp_path: Path, blobs: Blobs, database: Database
) -> None:
    (folder := tmp_path / "data").mkdir()
    (found,) = preflight(folder, blobs, database)
    assert found.ok, found.message
    for words in (
        "link, rename and fsync work",
        "blobs are written once",
        "clocks are at most 0.0 s apart",
        "files may",
        "databases answer in",
        "the event log answers in",
        "shared memory",
    ):
        assert words in found.message
    assert list(folder.iterdir()) == []
    assert list(blobs.list("stack/")) == []


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (Overwriting, "blobs: the store replaced a blob: use an S3 server that honours If-None-Match on PUT"),
        (Hanging, "blobs: no answer for "),
    ],
)
def test_a_store_that_breaks_a_promise_is_named(
    tmp_path: Path, blobs: Blobs, database: Database, wrap: Callable[[Blobs], Any], words: str
) -> None:
    found = preflight(tmp_path, wrap(blobs), database, looks=DependencyChecks(0.3))
    (told,) = [each for each in found if each.message.startswith("blobs")]
    assert (told.ok, told.message[: len(words)]) == (False, words)


def test_a_file_system_whose_links_overwrite_is_named(tmp_path: Path, blobs: Blobs, database: Database) -> None:
    (found,) = preflight(tmp_path, blobs, database, files=LinkOverwrites())
    words = f"files: link replaced a file in {tmp_path}: use a local file system such as ext4 or xfs"
    assert (found.ok, found.message) == (False, words)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, blobs: Blobs, database: Database) -> None:
    (found,) = preflight(tmp_path / "missing", blobs, database)
    assert found.message.startswith(f"files: {tmp_path}/missing: No such file or directory; use a local file system")


@pytest.mark.parametrize(
    ("pauses", "words"),
    [
        ([0.3] * 10, "event log: the event log takes 300 ms to answer, expected at most 250 ms: move it nearer"),
        ([0.001] * 8 + [0.7] * 2, "event log: the event log answers in 1 ms, and two times in ten in 700 ms or more"),
        ([0.001] * 9 + [0.7], ""),
    ],
    ids=["far away", "irregular", "late once"],
)
def test_an_event_log_that_is_far_away_or_irregular_is_named(
    tmp_path: Path, blobs: Blobs, database: Database, pauses: list[float], words: str
) -> None:
    clock, left = ManualClock(), iter([5.0, *pauses])  # the first time, to connect, does not count
    found = preflight(tmp_path, blobs, database, elapsed=clock.monotonic, ask_log=lambda: clock.advance(next(left)))
    about = [each.message for each in found if not each.ok and each.message.startswith("event log")]
    assert [message[: len(words)] for message in about] == ([words] if words else [])


@pytest.mark.parametrize(("hours", "words"), [(1, "3600 s behind that"), (-1, "3600 s ahead of that")])
def test_a_clock_an_hour_off_is_named(tmp_path: Path, blobs: Blobs, hours: int, words: str) -> None:
    clock = ManualClock()
    ours = clock.now()
    with closing(EmbeddedDatabase(tmp_path / "skewed.db", clock=clock)) as database:
        found = preflight(tmp_path, blobs, database, now=lambda: (ours - timedelta(hours=hours)).timestamp())
    assert [each.message for each in found] == [
        f"clock: this machine's clock is {words} of the database of scheduler, expected at most 5 s: let both follow a "
        f"time server"
    ]


def test_too_few_open_files_are_named(
    tmp_path: Path, blobs: Blobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    (found,) = preflight(tmp_path, blobs, database)
    assert found.message == "limits: this process may open 256 files, expected at least 1024: raise `ulimit -n`"


@pytest.mark.parametrize(("days", "ok"), [(13, False), (15, True)])
def test_a_certificate_is_to_be_replaced_two_weeks_before_it_expires(
    tmp_path: Path, blobs: Blobs, days: int, ok: bool
) -> None:
    until = datetime.now(UTC) + timedelta(days=days)
    (found,) = Preflight(tmp_path, blobs, {}, expiries=lambda: [("certificate.pem", until)]).findings()
    assert found.ok is ok
    assert ("certificates hold until" if ok else "certificate.pem expires at") in found.message


def test_each_store_that_is_slow_is_named(
    tmp_path: Path, blobs: Blobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    found = preflight(tmp_path, blobs, database, ask_log=lambda: database.run(lambda tx: tx.now()))
    said = [each.message for each in found if not each.ok]
    for words in ("blobs: the blob store", "databases: the database of scheduler", "event log: the event log"):
        (named,) = [each for each in said if each.startswith(words)]
        assert named.endswith("ms to answer, expected at most 0 ms: move it nearer")
