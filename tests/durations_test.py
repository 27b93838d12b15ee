"""The record of how long each module took."""

from pathlib import Path

import pytest

from tests import durations
from tests.durations import expected, expected_of_module, merged, recorded


def report(test: str, seconds: float, when: str = "call") -> pytest.TestReport:
    return pytest.TestReport(test, ("", None, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_a_unit_takes_what_its_tests_and_their_fixtures_take() -> None:
    ran = [report("a_test.py::one", 2.0, "setup"), report("a_test.py::one", 1.0), report("a_test.py::two", 0.5)]
    assert merged({}, ran) == {"a_test.py": (2, 3.5)}


def test_a_run_of_some_tests_does_not_replace_one_of_more() -> None:
    before = {"a_test.py": (2, 3.5), "b_test.py": (1, 9.0)}
    assert merged(before, [report("a_test.py::one", 1.0), report("b_test.py::one", 1.0)]) == {
        "a_test.py": (2, 3.5),
        "b_test.py": (1, 1.0),
    }


def test_a_module_takes_what_its_parts_take() -> None:
    record = merged({}, [report("tests/a_test.py::one[part0]", 3.0), report("tests/a_test.py::one[part1]", 4.0)])
    assert expected_of_module("tests/a_test.py", record) == 7.0
    assert expected_of_module("tests/b_test.py", record) == expected("tests/b_test.py", record)


def test_what_is_recorded_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "FILE", tmp_path / "build" / "durations.json")
    assert expected("tests/a_test.py", {}) > expected("libs/a_test.py", {}) > 0
    durations.record([report("tests/a_test.py::one", 0.25)], durations.ROOT)
    assert expected("tests/a_test.py", durations.known()) == 0.25
    durations.FILE.write_text("[]")
    assert recorded(durations.FILE) == {}


def test_a_run_of_another_project_changes_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "FILE", tmp_path / "durations.json")
    durations.record([report("a_test.py::one", 0.25)], tmp_path)
    assert not durations.FILE.exists()
