"""Lines of logs: chosen by name, level and time, in order; followed over rotations, each once."""

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.cli.loglines import Choice, Followed, Tail, read, since, written
from tutti.platform.logfiles import rotate
from tutti.platform.logs import JsonLines

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def line(second: int, message: str, level: str = "info") -> str:
    time = f"2026-11-22T02:00:{second:02}.000+00:00"
    return json.dumps({"time": time, "level": level, "service": "host", "message": message}) + "\n"


def add(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def messages(lines: Iterable[object]) -> list[str]:
    return [getattr(each, "message", "") for each in lines]


def test_the_logs_of_all_processes_are_one_in_the_order_of_time(tmp_path: Path) -> None:
    add(tmp_path / "host.log.1", line(1, "first"))
    add(tmp_path / "host.log", line(4, "fourth"))
    add(tmp_path / "agent-a.log", line(2, "second"), "Fatal error: a stack\n", line(5, "fifth"))
    assert messages(written(tmp_path, Choice())) == ["first", "second", "Fatal error: a stack", "fourth", "fifth"]


def test_a_line_counts_where_the_whole_name_stands_in_it(tmp_path: Path) -> None:
    said = ["jobs/ab, epoch 1", "jobs/abc, epoch 1", "rank 0 of jobs/ab", "runs: jobs/ab waits", "checkpoints/ab/0/5"]
    add(tmp_path / "host.log", *(line(at, each) for at, each in enumerate(said)))
    assert messages(written(tmp_path, Choice(["jobs/ab"]))) == [said[0], said[2], said[3]]
    assert messages(written(tmp_path, Choice(["jobs/ab", "checkpoints/ab"]))) == [said[0], *said[2:]]


def test_what_is_no_json_goes_with_the_line_before_it(tmp_path: Path) -> None:
    stack = ["Traceback (most recent call last):\n", "ValueError: no\n"]
    add(tmp_path / "host.log", line(1, "jobs/a failed"), *stack, line(2, "jobs/b goes on"), *stack)
    assert messages(written(tmp_path, Choice(["jobs/a"]))) == ["jobs/a failed", *(each.strip() for each in stack)]


def test_only_from_a_level_and_a_time_on(tmp_path: Path) -> None:
    add(tmp_path / "host.log", line(1, "a", "error"), line(2, "b", "debug"), line(3, "c", "warning"))
    assert messages(written(tmp_path, Choice(level="warning"))) == ["a", "c"]
    assert messages(written(tmp_path, Choice(since="2026-11-22T02:00:02.000+00:00"))) == ["b", "c"]


def test_what_is_followed_begins_where_the_written_lines_end(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    add(log, line(1, "a"), line(2, "b")[:20])
    followed = Followed(tmp_path, Choice())
    add(log, line(2, "b")[20:])
    assert messages(written(tmp_path, Choice(), followed.begins)) == ["a"]
    assert messages(followed.news()) == ["b"]
    add(tmp_path / "agent-b.log", line(3, "a new process"))
    assert messages(followed.news()) == ["a new process"]
    assert messages(followed.news()) == []


@given(st.lists(st.sampled_from(["write", "look", "copied", "half"]), max_size=30))
def test_a_log_that_is_copied_and_emptied_loses_and_repeats_nothing(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str]
) -> None:
    log = tmp_path_factory.mktemp("logs") / "host.log"
    log.touch()
    tail, seen, count = Tail(log), list[str](), 0
    for act in [*acts, "look"]:
        if act == "write":
            add(log, line(1, str(count)))
            count += 1
        elif act == "look":
            seen += messages(tail.news())
        else:
            seen += messages(tail.news())
            if act == "half":  # looked at between the copy and the emptying
                copy = log.with_name("copy")
                copy.write_bytes(log.read_bytes())
                copy.replace(log.with_name("host.log.1"))
                seen += messages(tail.news())
                log.write_bytes(b"")
            else:
                add(log, line(1, str(count)))
                count += 1
                rotate(log, most=0)
            seen += messages(tail.news())
    assert seen == [str(each) for each in range(count)]


def test_a_log_that_is_renamed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    handler = RotatingFileHandler(tmp_path / "supervisor.log", maxBytes=400, backupCount=1)
    handler.setFormatter(JsonLines("supervisor"))
    tail, seen = Tail(tmp_path / "supervisor.log"), list[str]()
    for at in range(20):
        handler.emit(logging.makeLogRecord({"msg": f"{at}", "levelno": 20, "levelname": "INFO"}))
        seen += messages(tail.news())
    handler.close()
    assert seen == [str(each) for each in range(20)]


def test_a_terminal_obeys_no_message() -> None:
    text = read(line(1, "http://a/\x1b]0;x\x07\u202e").encode(), "host", None).text()
    assert text.isprintable()
    assert "\\x1b" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "2026-11-22T11:58:30.000+00:00"),
        ("1d", "2026-11-21T12:00:00.000+00:00"),
        ("2026-11-01", "2026-11-01T00:00:00.000+00:00"),
        ("2026-11-22T12:00:00+01:00", "2026-11-22T11:00:00.000+00:00"),
    ],
)
def test_a_time_is_told_as_one_or_as_how_long_ago(text: str, expected: str) -> None:
    assert since(text, NOW) == expected


@pytest.mark.parametrize("text", ["soon", "3 days", "-1h", "1w"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        since(text, NOW)
