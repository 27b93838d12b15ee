"""The summary of a run, as people read it."""

from pathlib import Path

import pytest

from tutti.cli.report.example_test import facts
from tutti.cli.summary import left_out, show_summary


def test_what_was_left_out_is_told_by_reason_the_most_frequent_first(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [{"reason": "binary", "pages": 3}, {"reason": "not_ok", "pages": 3}, {"reason": "pdf", "pages": 1200}]
    assert left_out(counts) == "1,200 pdf, 3 binary, 3 not_ok"
    show_summary({**facts().summary, "crawl": None})
    printed = capsys.readouterr().out
    assert "pages         313 (12 rejected)\nleft out      12 pdf\n" in printed


def test_the_commands_that_are_named_are_those_for_the_data_directory(capsys: pytest.CaptureFixture[str]) -> None:
    found = {**facts().summary, "crawl": None}
    show_summary(found)
    assert "all: `tutti checkpoints ls`\n" in capsys.readouterr().out
    show_summary(found, Path("/data/my own"))
    assert "all: `tutti checkpoints ls --data-dir '/data/my own'`\n" in capsys.readouterr().out
