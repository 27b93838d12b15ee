"""The summary of a run, as people read it."""

import pytest

from tutti.cli.report.example_test import facts
from tutti.cli.summary import left_out, show_summary


def test_what_was_left_out_is_told_by_reason_the_most_frequent_first(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [{"reason": "binary", "pages": 3}, {"reason": "not_ok", "pages": 3}, {"reason": "pdf", "pages": 1200}]
    assert left_out(counts) == "1,200 pdf, 3 binary, 3 not_ok"
    show_summary({**facts().summary, "crawl": None})
    printed = capsys.readouterr().out
    assert "pages         313 (12 rejected)\nleft out      12 pdf\n" in printed
