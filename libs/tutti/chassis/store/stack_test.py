"""The identity of a stack on the embedded stores: first starts, crashes, emptied and foreign stores."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutti.backbone import SystemRandomness
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import Settings
from tutti.chassis.store import stack
from tutti.chassis.store.stack import ForeignStore, Stores

SERVICES = ("ingest", "dedup")


@contextmanager
def opened(folder: Path, services: tuple[str, ...] = SERVICES) -> Iterator[Stores]:
    with stack.opened(Settings(), DataDir(folder), services) as stores:
        yield stores


def joined(folder: Path, services: tuple[str, ...] = SERVICES) -> str:
    with opened(folder, services) as stores:
        return stack.join(stores, SystemRandomness())


def test_the_id_of_a_stack_is_made_once_and_different_stacks_have_different_ids(tmp_path: Path) -> None:
    first = joined(tmp_path / "a")
    assert joined(tmp_path / "a") == first
    assert len(first) == 32
    assert joined(tmp_path / "b") != first


def test_a_service_that_is_added_later_joins(tmp_path: Path) -> None:
    first = joined(tmp_path, ("ingest",))
    assert joined(tmp_path) == first


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_a_first_start_that_was_killed_between_two_stores_continues(tmp_path: Path, killed_after: int) -> None:
    with opened(tmp_path) as stores:
        identity = "0" * 32
        steps: list[Callable[[], object]] = [
            lambda: stores.blobs.put_if_absent(stack.BLOB, identity.encode()),
            lambda: stack._write(Stores(stores.blobs, stores.log, {}, {}), stack.look(stores), identity),
            lambda: stack._into_database(stores.databases["ingest"], identity),
        ]
        for step in steps[:killed_after]:
            step()
    assert joined(tmp_path) == identity


@pytest.mark.parametrize(
    ("emptied", "named"),
    [("log", "the event log"), ("blobs", "the blob store"), ("db/dedup.db", "the database of dedup")],
)
def test_an_emptied_store_is_refused_until_it_is_adopted(tmp_path: Path, emptied: str, named: str) -> None:
    identity = joined(tmp_path)
    for path in [tmp_path / emptied, *tmp_path.glob(f"{emptied}-*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(ForeignStore, match=rf"{named} \(.*expected {identity}.*`tutti stack adopt`"):
        joined(tmp_path)
    with opened(tmp_path) as stores:
        assert stack.adopt(stores) == identity
    assert joined(tmp_path) == identity


@pytest.mark.parametrize("exchanged", ["log", "blobs", "db"])
def test_a_store_of_another_stack_is_refused_until_an_id_is_chosen(tmp_path: Path, exchanged: str) -> None:
    ours, theirs = joined(tmp_path / "ours"), joined(tmp_path / "theirs")
    shutil.rmtree(tmp_path / "ours" / exchanged)
    shutil.copytree(tmp_path / "theirs" / exchanged, tmp_path / "ours" / exchanged)
    with pytest.raises(ForeignStore, match=r"belong to different stacks.*`tutti stack adopt --id ID`") as refused:
        joined(tmp_path / "ours")
    assert ours in str(refused.value)
    assert theirs in str(refused.value)
    with opened(tmp_path / "ours") as stores:
        with pytest.raises(ForeignStore, match="choose the id to keep with --id"):
            stack.adopt(stores)
        assert stack.adopt(stores, ours) == ours
    assert joined(tmp_path / "ours") == ours
