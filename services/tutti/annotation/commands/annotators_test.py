"""The table of annotators: biases that too few controls identify say so."""

import pytest

from tutti.annotation.commands.annotators import _brief
from tutti.judgements import LEAST_CONTROLS


@pytest.mark.parametrize(("controls", "remark"), [(LEAST_CONTROLS - 1, " (few controls)"), (LEAST_CONTROLS, "")])
def test_a_bias_says_that_too_few_controls_identify_it(controls: int, remark: str) -> None:
    estimate = {"value": 0.51, "error": 0.2}
    row = _brief({"key": "a000", "controls": controls, "sharpness": estimate, "position": estimate})
    assert row["sharpness"] == "0.51 ± 0.20"
    assert row["position"] == f"0.51 ± 0.20{remark}"
    assert row["length"] == ""
