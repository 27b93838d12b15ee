"""The summary of a run, as people read it."""

from pathlib import Path
from typing import Any

from tutti.report.example_test import facts
from tutti.report.page import page
from tutti.report.summarytext import left_out, lines
from tutti.web.formats import remedy


def told(found: dict[str, Any], *where: Path) -> str:
    return "".join(f"{line}\n" for line in lines(found, *where))


def test_what_was_left_out_is_told_by_reason_the_most_frequent_first() -> None:
    counts = [{"reason": "binary", "pages": 3}, {"reason": "not_ok", "pages": 3}, {"reason": "pdf", "pages": 1200}]
    assert left_out(counts) == "1,200 pdf, 3 binary, 3 not_ok"
    printed = told({**facts().summary, "crawl": None})
    assert "pages         313 (12 rejected)\nleft out      3.8%: 12 pdf\n" in printed
    assert remedy({"pdf": 12}) in printed


def test_the_commands_that_are_named_are_those_for_the_data_directory() -> None:
    found = {**facts().summary, "crawl": None}
    assert "all: `tutti checkpoints ls`\n" in told(found)
    assert "all: `tutti checkpoints ls --data-dir '/data/my own'`\n" in told(found, Path("/data/my own"))


def test_of_a_sample_without_passages_it_is_told_what_was_looked_for_and_where() -> None:
    printed = told({**facts().summary, "crawl": None})
    nothing = "no 8 tokens in a row that reach into what the model wrote stand in datasets/aaaaaaaaaaaa\n"
    assert f'"Once"\n{"":16}{nothing}' in printed
    assert printed.count("datasets/bbbbbbbbbbbb has no index and could not be searched") == 1
    found = [{**each, "unindexed": []} for each in facts().summary["continuations"]]
    printed = told({**facts().summary, "crawl": None, "continuations": found})
    assert "reach into what the model wrote stand in what it was trained on\n" in printed
    assert "no index" not in printed


def test_the_loss_is_the_one_of_the_report_and_says_what_it_is() -> None:
    found = {**facts().summary, "crawl": None}
    assert "steps         800 on 2 ranks, loss 1.7504, mean of the last 20 steps\n" in told(found)
    printed = page(facts())
    assert "1.750" in printed
    assert "nats a token, mean of the last 20 steps" in printed
    assert "loss 1.8710, mean of the newest steps\n" in told(
        {**found, "train": {**found["train"], "newest_loss": None, "newest_steps": 0}}
    )


def test_each_model_that_a_run_made_is_suggested_with_its_command() -> None:
    one = {**facts().summary, "crawl": None}
    assert f'to try it     tutti sample {one["models"][0]["checkpoint"]} --prompt "The"\n' in told(one)
    models = [{"stage": stage, "checkpoint": f"checkpoints/{stage}/0/20"} for stage in ("train", "ppo")]
    printed = told({**one, "models": models})
    assert 'to try train  tutti sample checkpoints/train/0/20 --prompt "The"\n' in printed
    assert 'to try ppo    tutti sample checkpoints/ppo/0/20 --prompt "The"\n' in printed
