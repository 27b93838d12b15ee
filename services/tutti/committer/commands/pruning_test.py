"""A prune says of each checkpoint whether it is deleted, or why it is kept, and a dry run says the same."""

from typing import Any

import pytest

from tutti.committer.commands.pruning import lines, merged, outcome
from tutti.contracts.committer.v1 import KeptCheckpoint, PruneCheckpointsResponse


def answer(job: str) -> PruneCheckpointsResponse:
    kept = [KeptCheckpoint(name=f"checkpoints/{job}/0/20", reasons=["pinned", "the newest of line 0"])]
    return PruneCheckpointsResponse(checkpoints=[f"checkpoints/{job}/0/5"], bytes=1 << 20, kept=kept, grace_seconds=600)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_dry_run_names_the_checkpoints_the_reasons_the_bytes_and_the_grace_as_the_deletion_does(
    deleted: bool,
) -> None:
    found: Any = merged([answer("a"), answer("b")]) | {"deleted": deleted}
    assert [line.split()[-1] for line in lines(found)[:2]] == ["checkpoints/a/0/5", "checkpoints/b/0/5"]
    assert all(line.endswith("pinned; the newest of line 0") for line in lines(found)[2:])
    assert all(words in outcome(found) for words in ("2 checkpoints", "2.0 MiB", "10 min"))
    assert outcome(found).startswith("deleted 2") == deleted


def test_where_all_are_kept_that_is_said() -> None:
    kept = PruneCheckpointsResponse(kept=answer("a").kept)
    for answers in ([kept], []):
        assert outcome(merged(answers) | {"deleted": True}).startswith("there is nothing to delete")
