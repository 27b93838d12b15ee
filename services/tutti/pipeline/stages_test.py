"""Stages: what decides whether the work of an earlier run serves again."""

import pytest

from tutti.pipeline.reading import read
from tutti.pipeline.stages import Given, Result, Source, StageName, reuse_of

LEAST = "input: {path: pages}\ntrain: {steps: 20}\n"


@pytest.mark.parametrize(("stage", "same"), [("ingest", True), ("filter", True), ("dedup", False)])
def test_cleaning_is_of_the_key_of_dedup_alone_and_only_where_it_is_asked_for(stage: str, same: bool) -> None:
    given = Given(Result("dedups/a", "dedup/manifests/a.json", "blake3:a"))
    plain, cleaned = (
        reuse_of(StageName(stage), read(LEAST, [f"quality.clean={each}"]), Source("", "blake3:b", ""), given, "1")
        for each in ("none", "c4")
    )
    assert (plain.key == cleaned.key) is same
    assert "clean" not in plain.parameters
