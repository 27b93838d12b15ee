"""A byte that flipped on the disk costs the stage that made it, never the recipe; and it is named, not believed."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Result, checkpoints, platform, tiny, tutti
from tests.e2e.conftest import Finished
from tests.e2e.flips import flip_file, flip_page, flip_row
from tests.scale import SOAK

SEEDS = 40 if SOAK else 1
STAGES = ("ingest", "filter", "dedup", "tokenization", "train")


@pytest.fixture(scope="module")
def first(finished: Finished) -> dict[str, Any]:
    return finished.summary


@pytest.fixture(scope="module")
def flipped(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy whose platform is up, for flips that the next run mends."""
    copy = finished.copied(tmp_path_factory.mktemp("flipped") / "copy")
    with platform(copy):
        yield copy


@pytest.fixture(scope="module")
def damaged(finished: Finished, first: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy with damage at three of its four checkpoints and at the row of a stage, whose platform is up.

    Of step 5 a shard, of step 10 the row of its decision, of step 20 the manifest; the row is that of dedup.
    """
    names = {each["step"]: each["name"] for each in first["checkpoints"]}
    copy = finished.copied(tmp_path_factory.mktemp("damaged") / "copy")
    job = names[20].split("/")[1]
    flip_file(next((copy / "blobs" / "trainer" / "shards").glob(f"{job}.0.5.1.0=*")))
    flip_file(copy / "blobs" / "committer" / "manifests" / f"{job}.0.20.json")
    flip_row(copy / "db" / "committer.db", "decisions", "manifest", names[10])
    flip_row(copy / "db" / "dedup.db", "dedups", "body", first["dedup"]["name"])
    with platform(copy):
        yield copy


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("ingest/document-shards", "ingest"),
        ("ingest/manifests", "ingest"),
        ("tokenization/token-shards", "tokenization"),
    ],
)
def test_a_flipped_byte_is_found_and_mended_by_the_next_run(
    first: dict[str, Any], kind: str, stage: str, flipped: Path, pages: Path
) -> None:
    damaged = min((flipped / "blobs" / kind).iterdir())
    whole = flip_file(damaged)
    again = tutti(*tiny(flipped, pages))
    assert again.code == 0, again.err
    summary = again.json()
    assert summary["run"]["state"] == "done"
    assert {each["name"]: each["reused"] for each in summary["run"]["stages"]} == {
        name: name != stage for name in STAGES
    }
    assert checkpoints(summary) == checkpoints(first)
    assert damaged.read_bytes() == whole


def test_the_doctor_names_every_row_that_no_longer_has_its_digest(first: dict[str, Any], damaged: Path) -> None:
    result = tutti("doctor", "--data-dir", damaged, "-o", "json")
    assert result.code == 1
    found = {(each["service"], each["check"]): each["message"] for each in result.json() if not each["ok"]}
    stuck = found.pop(("lineage", "folding"), first["dedup"]["name"])  # it reads the same row, now or soon
    assert first["dedup"]["name"] in stuck
    assert sorted(found) == [("committer", "decisions"), ("dedup", "rows")]
    assert "/0/10' of the table decisions" in found["committer", "decisions"]
    assert f"{first['dedup']['name']!r} of the table dedups" in found["dedup", "rows"]
    assert all("from a backup" in message for message in found.values())


def test_a_damaged_row_and_a_damaged_last_checkpoint_cost_their_stages_and_no_other(
    first: dict[str, Any], damaged: Path, pages: Path
) -> None:
    again = tutti(*tiny(damaged, pages))
    assert again.code == 0, again.err
    summary = again.json()
    assert {each["name"]: each["reused"] for each in summary["run"]["stages"]} == {
        name: name not in ("dedup", "train") for name in STAGES
    }
    assert checkpoints(summary) == checkpoints(first)


def scrubbed(data_dir: Path) -> tuple[list[str], list[str]]:
    """The keys of blobs that a scrub repaired, and those of blobs of agents that it found damaged."""
    result = tutti("scrub", "--data-dir", data_dir, "-o", "json")
    assert result.code == 1, result.err  # for the row of dedup
    assert tutti("scrub", "--last", "--data-dir", data_dir, "-o", "json").json() == result.json()
    repaired = [line.partition(":")[0] for each in result.json() for line in each["repaired"]]
    damaged = [line.partition(":")[0] for each in result.json() for line in each["damaged"]]
    return repaired, [each for each in damaged if each.startswith("trainer/")]


def test_a_scrub_makes_the_damaged_result_of_a_stage_again_and_names_a_damaged_checkpoint(
    first: dict[str, Any], damaged: Path
) -> None:
    (name,) = (each["name"] for each in first["checkpoints"] if each["step"] == 5)
    file = min((damaged / "blobs" / "ingest" / "document-shards").iterdir())
    whole = flip_file(file)
    shard = next((damaged / "blobs" / "trainer" / "shards").glob(f"{name.split('/')[1]}.0.5.1.0=*"))
    found = [str(shard.relative_to(damaged / "blobs"))]
    assert scrubbed(damaged) == ([f"ingest/document-shards/{file.name}"], found)
    assert file.read_bytes() == whole


def test_verify_names_what_is_damaged_and_what_holds(first: dict[str, Any], damaged: Path) -> None:
    names = {each["step"]: each["name"] for each in first["checkpoints"]}
    result = tutti("checkpoints", "verify", names[5], names[15], names[20], "--data-dir", damaged, "-o", "json")
    assert result.code == 1
    assert "2 of 3 checkpoints are damaged" in result.err
    assert [each["ok"] for each in result.json()] == [False, True, False]
    assert "shard" in result.json()[0]["problems"][0]
    assert "manifest" in result.json()[2]["problems"][0]
    refused = tutti("checkpoints", "verify", names[10], "--data-dir", damaged)
    assert refused.code == 1
    assert "[CORRUPT_ROW]" in refused.err
    assert "Traceback" not in result.err + refused.err


def test_a_scrub_does_not_name_a_checkpoint_that_is_marked(damaged: Path) -> None:
    assert scrubbed(damaged) == ([], [])


def exported(data_dir: Path) -> Result:
    with platform(data_dir, agents=0):
        return tutti("export", "--canonical", "--data-dir", data_dir)


@pytest.fixture(scope="module")
def state(finished: Finished, pages: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The canonical export after the recipe ran again where nothing is damaged."""
    copy = finished.copied(tmp_path_factory.mktemp("whole") / "copy")
    again = tutti(*tiny(copy, pages))
    assert again.code == 0, again.err
    found = exported(copy)
    assert found.code == 0, found.err
    return found.out


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_bit_that_flips_anywhere_in_a_database_is_named_or_changes_no_state(
    seed: int, state: str, first: dict[str, Any], finished: Finished, pages: Path, tmp_path: Path
) -> None:
    copy, drawn = finished.copied(tmp_path / "copy"), random.Random(seed)
    file = drawn.choice(sorted((copy / "db").glob("*.db")))
    used = [place for place, byte in enumerate(file.read_bytes()) if byte]  # most of a small file is free space
    flip_page(file, bit := 8 * drawn.choice(used) + drawn.randrange(8))
    again = tutti(*tiny(copy, pages))
    if again.code == 0:
        assert checkpoints(again.json()) == checkpoints(first)
        found = exported(copy)
    else:
        found = again
    print(f"seed {seed}: bit {bit} of {file.name}: {found.err.strip() or 'no state changed'}")
    if found.code:
        # Of its schema SQLite has the text alone: another letter of a name is another name.
        assert any(words in found.err for words in ("from a backup", "no such column", "no such table"))
        assert "Traceback" not in found.err
    else:
        assert found.out == state
