"""What people are shown: nothing cut off, times that can be read."""

import pytest

from tutti.cli.output import TEXT, print_one, shown


def test_a_mapping_of_mappings_is_shown_by_dotted_keys(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"name": "jobs/a", "spec": {"steps": 3, "training": {"model": {"width": 32, "layers": 2}}}}, TEXT)
    assert capsys.readouterr().out.splitlines() == [
        "name                 jobs/a",
        "spec.steps           3",
        "spec.training.model  width=32 layers=2",
    ]


def test_times_are_shown_to_the_second() -> None:
    assert shown("2026-01-02T03:04:05.678901Z") == "2026-01-02T03:04:05Z"
    assert shown("a.5Z") == "a.5Z"
