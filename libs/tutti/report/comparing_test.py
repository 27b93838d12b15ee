"""Two runs side by side."""

import json
from dataclasses import replace

from tutti.client.plain import Plain
from tutti.report.comparing import compared
from tutti.report.example_test import facts


def summary(steps: int, bits: float) -> Plain:
    found = replace(facts()).summary
    found["run"]["spec"]["recipe"] = json.dumps({"size": "tiny", "train": {"steps": steps, "ranks": 2}})
    found["train"] |= {"bits_per_byte": bits, "tokens_per_second": None}
    return found


def test_figures_come_first_and_then_the_settings_that_differ() -> None:
    rows = compared(summary(800, 1.463), summary(400, 1.5))
    told = {each["what"]: (each["a"], each["b"], each["differs"]) for each in rows}
    assert told["bits per byte"] == ("1.4630", "1.5000", True)
    assert told["documents kept"] == ("268", "268", False)
    assert told["tokens a second"] == ("-", "-", False)
    assert told["took"][0] == "5 min 1 s"
    assert rows[-1] == {"what": "train.steps", "a": "800", "b": "400", "differs": True}
    assert "size" not in told
    assert "size" in {each["what"] for each in compared(summary(1, 1.0), summary(1, 1.0), every=True)}
