"""Watches, over real servers: newest snapshot, wake-up by commit, resumption."""

from pathlib import Path

import pytest

from tutti.chassis.config.datadir import DataDir
from tutti.chassis.demo_test import Demo, eventually, running
from tutti.chassis.errors import InvalidField, NotFound, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.rpc.watch import Watch
from tutti.client import Unreachable, connect
from tutti.contracts.admin.v1 import WatchRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.ingest.v1 import Ingest


def watched(demo: Demo, seen: list[tuple[int, str]], *, since_revision: int = 0) -> Watch[Ingest]:
    def note(revision: int, ingest: Ingest) -> None:
        seen.append((revision, ingest.reason))

    return Watch(demo.channel(), "ingests/a", note, Ingest, since_revision=since_revision)


def test_a_watch_sends_the_resource_now_and_after_every_commit(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        watch = watched(demo, seen).start()
        eventually(lambda: seen)
        for number in range(2, 5):
            demo.change("ingests/a", f"change {number}")
            eventually(lambda number=number: seen[-1] == (number, f"change {number}"))  # type: ignore[misc]
        latest = watch.latest()
        watch.close()
    assert latest is not None
    assert latest[0] == 4
    assert [revision for revision, _ in seen] == [1, 2, 3, 4]


def test_a_watch_resumes_after_the_revision_that_was_seen(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        demo.change("ingests/a", "second")
        stub = AdminStub(demo.channel())
        first = next(stub.Watch(WatchRequest(name="ingests/a", since_revision=1), timeout=5))
        assert first.revision == 2
        watch: Watch[Ingest] = Watch(demo.channel(), "ingests/a", None, Ingest, since_revision=1)
        assert watch.poll() is not None
        latest = watch.latest()
        assert latest is not None
        assert latest[1].reason == "second"


def test_a_watch_goes_on_after_its_server_came_back_at_another_port(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    data_dir = DataDir(tmp_path)
    channel = RpcChannel(lambda: data_dir.endpoint() or "127.0.0.1:1", token=data_dir.tokens().of(Role.ENGINEER))
    watch = Watch(channel, "ingests/a", lambda revision, ingest: seen.append((revision, ingest.reason)), Ingest)
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        watch.start()
        eventually(lambda: seen)
    with running(tmp_path) as demo:
        demo.change("ingests/a", "after the restart")
        eventually(lambda: seen[-1] == (2, "after the restart"))
        watch.close()
    assert [revision for revision, _ in seen] == [1, 2]


def test_a_watch_ends_when_its_server_drains(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        stream = AdminStub(demo.channel()).Watch(WatchRequest(name="ingests/a"))
        next(stream)
        assert demo.host.drain() == []
        with pytest.raises(Unavailable):
            next(stream)


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        stub = AdminStub(demo.channel())
        with pytest.raises(NotFound):
            next(stub.Watch(WatchRequest(name="ingests/none")))
        with pytest.raises(InvalidField, match="a resource of ingests"):
            next(stub.Watch(WatchRequest(name="planets/mars")))


def test_the_client_follows_a_resource_by_its_name(tmp_path: Path) -> None:
    with running(tmp_path) as demo, connect(tmp_path) as client:
        demo.create("ingests/a")
        snapshots = client.watch("ingests/a")
        first = next(snapshots)
        demo.change("ingests/a", "second")
        second = next(snapshots)
    assert isinstance(first, Ingest)
    assert isinstance(second, Ingest)
    assert (first.revision, second.reason) == (1, "second")


def test_without_a_platform_the_client_says_what_to_do_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="tutti up"):
        connect(tmp_path / "nobody")
    assert not (tmp_path / "nobody").exists()
