"""The summary of a run, as people read it."""

from pathlib import Path

import pytest

from tutti.cli.report.example_test import facts
from tutti.cli.report.page import page
from tutti.cli.summary import left_out, show_summary
from tutti.web.words import remedy


def test_what_was_left_out_is_told_by_reason_the_most_frequent_first(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [{"reason": "binary", "pages": 3}, {"reason": "not_ok", "pages": 3}, {"reason": "pdf", "pages": 1200}]
    assert left_out(counts) == "1,200 pdf, 3 binary, 3 not_ok"
    show_summary({**facts().summary, "crawl": None})
    printed = capsys.readouterr().out
    assert "pages         313 (12 rejected)\nleft out      3.8%: 12 pdf\n" in printed
    assert remedy({"pdf": 12}) in printed


def test_the_commands_that_are_named_are_those_for_the_data_directory(capsys: pytest.CaptureFixture[str]) -> None:
    found = {**facts().summary, "crawl": None}
    show_summary(found)
    assert "all: `tutti checkpoints ls`\n" in capsys.readouterr().out
    show_summary(found, Path("/data/my own"))
    assert "all: `tutti checkpoints ls --data-dir '/data/my own'`\n" in capsys.readouterr().out


def test_of_a_sample_without_passages_it_is_told_what_was_looked_for_and_where(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_summary({**facts().summary, "crawl": None})
    told = capsys.readouterr().out
    nothing = "no 8 tokens in a row that reach into what the model wrote stand in datasets/aaaaaaaaaaaa\n"
    assert f'"Once"\n{"":16}{nothing}' in told
    assert told.count("datasets/bbbbbbbbbbbb has no index and could not be searched") == 1
    found = [{**each, "unindexed": []} for each in facts().summary["continuations"]]
    show_summary({**facts().summary, "crawl": None, "continuations": found})
    told = capsys.readouterr().out
    assert "reach into what the model wrote stand in what it was trained on\n" in told
    assert "no index" not in told


def test_the_loss_is_the_one_of_the_report_and_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    found = {**facts().summary, "crawl": None}
    show_summary(found)
    assert "steps         800 on 2 ranks, loss 1.7504, mean of the last 20 steps\n" in capsys.readouterr().out
    told = page(facts())
    assert "1.750" in told
    assert "nats a token, mean of the last 20 steps" in told
    show_summary({**found, "train": {**found["train"], "newest_loss": None, "newest_steps": 0}})
    assert "loss 1.8710, mean of the newest steps\n" in capsys.readouterr().out


def test_each_model_that_a_run_made_is_suggested_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    one = {**facts().summary, "crawl": None}
    show_summary(one)
    assert f'to try it     tutti sample {one["models"][0]["checkpoint"]} --prompt "The"\n' in capsys.readouterr().out
    models = [{"stage": stage, "checkpoint": f"checkpoints/{stage}/0/20"} for stage in ("train", "ppo")]
    show_summary({**one, "models": models})
    told = capsys.readouterr().out
    assert 'to try train  tutti sample checkpoints/train/0/20 --prompt "The"\n' in told
    assert 'to try ppo    tutti sample checkpoints/ppo/0/20 --prompt "The"\n' in told
