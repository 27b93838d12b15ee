"""Lines as `docker compose logs` prints them: with and without names of containers and times, out of order."""

import io
from collections.abc import Iterable

from tutti.cli.loglines import Choice, Line
from tutti.cli.loglines_test import line
from tutti.cli.pipedlogs import chosen, newest


def messages(found: Iterable[Line]) -> list[str]:
    return [each.message for each in found]


def of(text: str, choice: Choice | None = None) -> list[Line]:
    return list(chosen(io.BytesIO(text.encode()), choice or Choice()))


def test_the_name_of_a_container_is_no_part_of_its_lines() -> None:
    found = of(f"scheduler-1  | {line(1, 'a')}postgres-1   | LOG:  b | c\n{line(2, 'd')}agent-a-1 | {line(3, 'e')}")
    assert messages(found) == ["a", "LOG:  b | c", "d", "e"]
    assert [each.service for each in found] == ["host", "postgres", "host", "host"]
    assert [each.raw for each in found] == [False, True, False, False]


def test_what_is_no_json_goes_with_the_line_before_it_of_the_same_container() -> None:
    text = (
        f"dedup-1   | {line(1, 'jobs/a failed')}"
        f"ingest-1  | {line(2, 'jobs/b goes on')}"
        "dedup-1   | ValueError: no\n"
        "ingest-1  | ValueError: another\n"
    )
    assert messages(of(text, Choice(["jobs/a"]))) == ["jobs/a failed", "ValueError: no"]


def test_the_time_of_the_engine_is_that_of_lines_which_have_none() -> None:
    stamp = "2026-11-22T02:00:05.123456789Z"
    found = of(f"kafka-1  | {stamp} started\nscheduler-1  | {stamp} {line(9, 'a')}{stamp} LOG:  b\n")
    assert messages(found) == ["started", "a", "LOG:  b"]
    assert [each.time[17:23] for each in found] == ["05.123", "09.000", "05.123"]
    later = Choice(since="2026-11-22T02:00:06.000+00:00")
    assert messages(of(f"kafka-1  | {stamp} started\nscheduler-1  | {stamp} {line(9, 'a')}", later)) == ["a"]


def test_the_newest_lines_are_in_the_order_of_time() -> None:
    stack = "b-1  | ValueError: no\nb-1  | at the end\n"
    found = of(f"a-1  | {line(3, 'third')}b-1  | {line(1, 'first')}{stack}a-1  | {line(2, 'second')}")
    assert messages(newest(found, 0)) == ["first", "ValueError: no", "at the end", "second", "third"]
    assert messages(newest(found, 3)) == ["at the end", "second", "third"]
