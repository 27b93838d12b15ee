"""A sweep: runs side by side, the best on top."""

from pathlib import Path

from tests.e2e.command import TINY, tutti

RATES = ("1e-2", "1e-7", "1e-3")


def test_a_sweep_of_three_learning_rates_ends_with_the_best_on_top(served: Path, pages: Path) -> None:
    common = ("--set", f"input.path={pages}", "--set", "train.steps=6", "--data-dir", served, "-o", "json")
    wrong = tutti("sweep", TINY, "--set", "train.learning_rate=1e-3,many", *common)
    assert (wrong.code, "train.learning_rate" in wrong.err) == (2, True)
    before = {each["name"] for each in tutti("runs", "ls", "--data-dir", served, "-o", "json").json()}
    tags = ("--tag", "rates", "--tag", "of-a-sweep")
    done = tutti("sweep", TINY, "--set", f"train.learning_rate={','.join(RATES)}", *tags, *common)
    assert done.code == 0, done.err
    found = done.json()
    figures = [each["bits_per_byte"] for each in found["runs"]]
    assert figures == sorted(figures)
    assert found["best"] == found["runs"][0]["run"]
    assert {each["set"]["train.learning_rate"] for each in found["runs"]} == set(RATES)
    after = {each["name"] for each in tutti("runs", "ls", "--data-dir", served, "-o", "json").json()}
    assert after - before == {each["run"] for each in found["runs"]}  # the wrong one made none
    tagged = tutti("runs", "ls", "--tag", "rates", "--data-dir", served, "-o", "json").json()
    assert {each["name"] for each in tagged} == after - before
    assert {each["title"].rpartition("=")[2] for each in tagged} == set(RATES)
    assert [each["tags"] for each in tagged] == [["of-a-sweep", "rates"]] * len(RATES)
    shared = [
        {
            stage["name"]: stage["resource"]
            for stage in tutti("runs", "show", name, "--data-dir", served, "-o", "json").json()["stages"]
        }
        for name in after - before
    ]
    assert len({each["tokenization"] for each in shared}) == 1
    assert len({each["train"] for each in shared}) == 3
