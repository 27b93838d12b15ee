"""Logs: lines that strangers can cause again and again leave room for the rest."""

import logging

from tutti.platform.logs import Capped


def record(message: str, *, line: int, seconds: float) -> logging.LogRecord:
    made = logging.LogRecord("refused", logging.WARNING, "server.py", line, message, ("%s",), None)
    made.created = seconds
    return made


def test_lines_of_one_place_are_capped_and_those_of_others_pass() -> None:
    capped = Capped(3)
    passed = [capped.filter(record("a request of %s is refused", line=7, seconds=60 + each)) for each in range(10)]
    assert passed == [True] * 3 + [False] * 7
    assert capped.filter(record("a rank of %s is lost", line=8, seconds=61))


def test_the_next_line_says_how_many_were_left_out() -> None:
    capped = Capped(3)
    for each in range(10):
        capped.filter(record("a request of %s is refused", line=7, seconds=60 + each))
    later = record("a request of %s is refused", line=7, seconds=125)
    assert capped.filter(later)
    assert later.getMessage().startswith("a request of %s is refused")
    assert "7" in later.getMessage()
    again = record("a request of %s is refused", line=7, seconds=126)
    assert capped.filter(again)
    assert "7" not in again.getMessage()
