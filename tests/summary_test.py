"""The summary of the suite tells what became of every campaign and adapter."""

from typing import Literal

import pytest

from tests.scale import scale
from tests.summary import adapters, adapters_table, scales, scales_table

Outcome = Literal["passed", "failed", "skipped"]


def report(nodeid: str, outcome: Outcome = "passed", *, printed: str = "") -> pytest.TestReport:
    sections = [("Captured stdout setup", printed)] if printed else []
    return pytest.TestReport(nodeid, (nodeid, 0, ""), {}, outcome, None, "call", sections)


def test_a_contract_test_has_a_cell_for_every_adapter_it_ran_on() -> None:
    found = adapters(
        [
            report("tests/contract/log_test.py::test_order[embedded-2]"),
            report("tests/contract/log_test.py::test_order[kafka-2]@group", "failed"),
            report("tests/contract/log_test.py::test_order[kafka-2]@group"),
            report("tests/contract/log_test.py::test_crash[embedded]"),
            report("tests/contract/log_test.py::test_crash[kafka]", "skipped"),
            report("tests/contract/log_test.py::test_alone"),
            report("tests/other_test.py::test_other[kafka]"),
        ]
    )
    assert found == {
        "log_test.py::test_order[2]": {"embedded": "passed", "kafka": "failed"},
        "log_test.py::test_crash": {"embedded": "passed", "kafka": "skipped"},
    }
    assert [line.split() for line in adapters_table(found)] == [
        ["embedded", "kafka", "postgres", "s3", "cached", "test"],
        ["passed", "skipped", "-", "-", "-", "log_test.py::test_crash"],
        ["passed", "failed", "-", "-", "-", "log_test.py::test_order[2]"],
        ["embedded:", "2", "passed"],
        ["kafka:", "1", "failed,", "1", "skipped"],
    ]


def test_a_campaign_shows_its_number_beside_that_of_a_test_and_a_soak(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = scale(test=3, soak=70)
    found = scales([report(f"tests/c_test.py::test_c[{part}]", printed=capsys.readouterr().out) for part in range(1)])
    assert found == {"tests/c_test.py::test_c": (str(chosen), "3", "70")}
    assert scales_table(found)[1].split() == [str(chosen), "3", "70", "tests/c_test.py::test_c"]
    assert scales_table({}) == []
