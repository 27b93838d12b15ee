"""Which resource a text means, among those that there are; tests/e2e resolves names against a platform."""

import pytest

from tutti.cli.failures import MISUSE, Failure
from tutti.cli.naming import Candidate, choose

RUNS = [
    Candidate("runs/0f5c-1", (1,), "words"),
    Candidate("runs/0f77-1", (3,), "letters"),
    Candidate("runs/9a00-1", (2,), "words"),
]
CHECKPOINTS = [
    Candidate("checkpoints/abc/0/20", (1, 20)),
    Candidate("checkpoints/abc/0/100", (2, 100)),
    Candidate("checkpoints/xyz/0/5", (0, 5)),
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "runs/0f77-1"),
        ("latest", "runs/0f77-1"),
        ("runs/latest", "runs/0f77-1"),
        ("0f5c-1", "runs/0f5c-1"),
        ("runs/0f5", "runs/0f5c-1"),
        ("9", "runs/9a00-1"),
        ("words", "runs/9a00-1"),
        ("letters", "runs/0f77-1"),
    ],
)
def test_a_run_is_meant_by_name_prefix_title_or_as_the_newest(text: str, name: str) -> None:
    assert choose("runs", text, RUNS) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("latest", "checkpoints/abc/0/100"),
        ("abc", "checkpoints/abc/0/100"),
        ("abc/0/20", "checkpoints/abc/0/20"),
        ("checkpoints/x", "checkpoints/xyz/0/5"),
    ],
)
def test_the_prefix_of_one_job_means_its_newest_checkpoint(text: str, name: str) -> None:
    assert choose("checkpoints", text, CHECKPOINTS) == name


def test_a_prefix_of_several_is_answered_with_them() -> None:
    with pytest.raises(Failure, match=r"runs/0f is ambiguous: runs/0f5c-1, runs/0f77-1; give more") as refused:
        choose("runs", "0f", RUNS)
    assert refused.value.code == MISUSE


def test_a_name_of_nothing_is_answered_with_the_nearest_or_with_the_list() -> None:
    nearest = r"^runs/leters does not exist \[NOT_FOUND\]; the nearest is runs/0f77-1 \(letters\)"
    with pytest.raises(Failure, match=nearest):
        choose("runs", "leters", RUNS)
    with pytest.raises(Failure, match=r"runs/zzzz does not exist.*`tutti runs ls` lists those that do"):
        choose("runs", "zzzz", RUNS)
    with pytest.raises(Failure, match=r"no training jobs yet; `tutti run RECIPE` creates one"):
        choose("jobs", "latest", [])
