"""Rights to blobs: what an owner may do, on any store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobsRefused
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.owned import BlobRights, OwnedBlobs, agent_rights, service_rights


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Blobs]:
    with closing(EmbeddedBlobs(tmp_path / "blobs")) as made:
        for owner in ("dedup", "ingest", "sampling", "trainer"):
            made.put_if_absent(f"{owner}/kind/name", owner.encode())
        yield made


def of(store: Blobs, rights: BlobRights) -> OwnedBlobs:
    return OwnedBlobs(store, "dedup", rights)


def test_a_service_writes_and_deletes_its_own_and_reads_what_it_declares(store: Blobs, tmp_path: Path) -> None:
    dedup = of(store, service_rights("dedup", reads=["ingest"]))
    for key in ("dedup/kind/new", "audit/dedup/000000000001", "stack/members/dedup"):
        dedup.put_if_absent(key, b"mine")
    assert dedup.get("ingest/kind/name") == dedup.get_range("ingest/kind/name", 0, 6) == b"ingest"
    dedup.fetch("ingest/kind/name", tmp_path / "fetched")
    assert [stat.key for stat in dedup.list("dedup/kind/")] == ["dedup/kind/name", "dedup/kind/new"]
    dedup.delete("dedup/kind/new")
    assert dedup.stat("dedup/kind/name").size == 5


@pytest.mark.parametrize("key", ["sampling/kind/name", "audit/ingest/000000000001", "ingestion/kind/name"])
def test_what_belongs_to_others_is_refused(store: Blobs, tmp_path: Path, key: str) -> None:
    dedup = of(store, service_rights("dedup", reads=["ingest"]))
    for call in (
        lambda: dedup.get(key),
        lambda: dedup.get_range(key, 0, 1),
        lambda: dedup.fetch(key, tmp_path / "fetched"),
        lambda: dedup.stat(key),
        lambda: list(dedup.list(key.rpartition("/")[0])),
    ):
        with pytest.raises(BlobsRefused, match=r"dedup may not read .* its rights to blobs do not contain it"):
            call()
    for forbidden in (key, "ingest/kind/forged"):
        with pytest.raises(BlobsRefused, match=f"dedup may not write {forbidden}"):
            dedup.put_if_absent(forbidden, b"forged")
    with pytest.raises(BlobsRefused, match="dedup may not delete ingest/kind/name"):
        dedup.delete("ingest/kind/name")
    with pytest.raises(BlobsRefused, match="may not read"):
        list(dedup.list(""))
    assert store.get("ingest/kind/name") == b"ingest"


def test_the_identity_of_the_stack_is_written_and_never_deleted(store: Blobs) -> None:
    dedup = of(store, service_rights("dedup"))
    dedup.put_if_absent("stack/identity/id", b"1")
    with pytest.raises(BlobsRefused):
        dedup.delete("stack/identity/id")
    dedup.put_if_absent("stack/preflight/1", b"1")
    dedup.delete("stack/preflight/1")


def test_a_service_deletes_what_it_declares_of_others(store: Blobs) -> None:
    committer = of(store, service_rights("committer", reads=["trainer"], deletes=["trainer/kind/"]))
    committer.delete("trainer/kind/name")
    assert not list(store.list("trainer/"))


def test_a_service_adds_what_it_declares_to_others_and_deletes_none_of_it(store: Blobs) -> None:
    pipeline = of(store, service_rights("pipeline", writes=["ingest/kind/"]))
    pipeline.put_if_absent("ingest/kind/new", b"mine")
    with pytest.raises(BlobsRefused):
        pipeline.delete("ingest/kind/new")
    with pytest.raises(BlobsRefused):
        pipeline.put_if_absent("ingest/other/new", b"mine")


def test_an_agent_adds_and_never_deletes(store: Blobs) -> None:
    agent = of(store, agent_rights("trainer", ["ingest/kind/"], "a"))
    agent.put_if_absent("trainer/kind/new=a", b"mine")
    assert agent.get("ingest/kind/name") == b"ingest"
    assert agent.get("trainer/kind/new=a") == b"mine"
    for key in ("trainer/kind/new=a", "ingest/kind/name"):
        with pytest.raises(BlobsRefused, match="may not delete"):
            agent.delete(key)
    for key in ("stack/members/a", "trainer/kind/new=b", "trainer/kind/new"):
        with pytest.raises(BlobsRefused, match="may not write"):
            agent.put_if_absent(key, b"")
    with pytest.raises(BlobsRefused, match="may not read"):
        agent.get("ingest/other/name")
