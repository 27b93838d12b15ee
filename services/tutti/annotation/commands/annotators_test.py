"""The table of annotators: biases that too few controls identify say so."""

from typing import Any

import pytest

from tutti.annotation.commands.annotators import _brief
from tutti.judgements import LEAST_CONTROLS, LEAST_RESTYLED


@pytest.mark.parametrize(("controls", "remark"), [(LEAST_CONTROLS - 1, " (few controls)"), (LEAST_CONTROLS, "")])
def test_a_bias_says_that_too_few_controls_identify_it(controls: int, remark: str) -> None:
    estimate = {"value": 0.51, "error": 0.2}
    row = _brief({"key": "a000", "controls": controls, "sharpness": estimate, "position": estimate})
    assert row["sharpness"] == "0.51 ± 0.20"
    assert row["position"] == f"0.51 ± 0.20{remark}"
    assert row["length"] == row["format"] == ""


@pytest.mark.parametrize(("restyled", "remark"), [(LEAST_RESTYLED - 1, " (few controls)"), (LEAST_RESTYLED, "")])
def test_the_bias_for_format_says_that_too_few_controls_in_two_formats_identify_it(restyled: int, remark: str) -> None:
    estimate = {"value": -0.3, "error": 0.1}
    row = _brief({"key": "a000", "controls": LEAST_CONTROLS, "restyled": restyled, "format": estimate})
    assert row["format"] == f"-0.30 ± 0.10{remark}"


@pytest.mark.parametrize(
    ("row", "weight", "reason"),
    [
        ({}, "1", ""),
        ({"set_weight": 0.0, "weight_reason": "asleep"}, "0", "asleep"),
        ({"set_weight": 1.0, "proposed_weight": 0.2, "proposal": "a run"}, "1 (0.2 proposed)", "a run"),
        ({"set_weight": 0.2, "proposed_weight": 0.2, "proposal": "a run", "weight_reason": "keys"}, "0.2", "keys"),
    ],
)
def test_a_weight_is_shown_with_a_lower_one_that_is_proposed(row: dict[str, Any], weight: str, reason: str) -> None:
    shown = _brief({"key": "a000", "controls": LEAST_CONTROLS, **row})
    assert (shown["weight"], shown["reason"]) == (weight, reason)
