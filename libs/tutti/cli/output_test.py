"""What people are shown: nothing cut off, times that can be read, nothing that a terminal would obey."""

import json

import pytest

from tutti.cli.output import JSON, TEXT, print_cancelled, print_list, print_one, say
from tutti.report.values import printable, shown


def test_a_mapping_of_mappings_is_shown_by_dotted_keys(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"name": "jobs/a", "spec": {"steps": 3, "training": {"model": {"width": 32, "layers": 2}}}}, TEXT)
    assert capsys.readouterr().out.splitlines() == [
        "name                 jobs/a",
        "spec.steps           3",
        "spec.training.model  width=32 layers=2",
    ]


@pytest.mark.parametrize(
    ("state", "reason", "out", "err"),
    [
        ("cancelled", "by request", "jobs/a is cancelled: by request\n", ""),
        ("done", "", "jobs/a is done\n", "it had ended before; nothing was cancelled\n"),
    ],
)
def test_what_was_to_be_cancelled_is_told(
    capsys: pytest.CaptureFixture[str], state: str, reason: str, out: str, err: str
) -> None:
    print_cancelled({"name": "jobs/a", "state": state, "reason": reason}, TEXT)
    assert capsys.readouterr() == (out, err)


def test_times_are_shown_to_the_second() -> None:
    assert shown("2026-01-02T03:04:05.678901Z") == "2026-01-02T03:04:05Z"
    assert shown("a.5Z") == "a.5Z"


HOSTILE = "text/\x1b]0;x\x07\x9b2J\x7f\u202e\u2066\r\nhtml"
HARMLESS = "Ḥ\u3000ü\u200cन\u200d🙂\xa0"


def test_a_terminal_obeys_nothing_that_comes_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": HOSTILE, "detail": {HOSTILE: HOSTILE}, "causes": [HOSTILE], "inner": [{"a": HOSTILE}]}
    print_one(row, TEXT)
    print_list([row], list(row), TEXT, nothing="")
    say(HOSTILE.replace("\r\n", ""))
    seen = capsys.readouterr()
    assert all(line.isprintable() for line in (seen.out + seen.err).split("\n"))
    assert r"text/\x1b]0;x\x07\x9b2J\x7f\u202e\u2066\r\nhtml" in seen.out
    assert len(seen.out.splitlines()) == len(row) + 2


def test_what_harms_no_terminal_is_shown_as_it_is() -> None:
    assert printable(HARMLESS) == HARMLESS
    assert printable("a\tb\nc\x1b", kept="\t\n") == "a\tb\nc\\x1b"


def test_scripts_get_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"name": HOSTILE}, JSON)
    assert json.loads(capsys.readouterr().out) == {"name": HOSTILE}
