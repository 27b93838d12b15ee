"""The policies in a report: a point an iteration, and the limit of the divergence."""

import json
import math
import re
from dataclasses import replace

import pytest

from tutti.contracts.committer.v1 import CurveMetric, CurveValue, GetCurveResponse
from tutti.contracts.sampling.v1 import Experience
from tutti.model.programs.grpo import GrpoParameters
from tutti.records.records import written
from tutti.report.example_test import facts, iterations
from tutti.report.page import page
from tutti.report.policies import SHOWN_ITERATIONS, Policy, drawn, newest_line, spread, stop_kl
from tutti.web.rollouts import parity


def test_each_iteration_is_a_ring_and_a_row_of_the_table_tells_the_same() -> None:
    (policy,) = drawn([Policy("grpo", iterations(SHOWN_ITERATIONS))])
    assert policy.svg.count("<circle") == len(policy.rows) == SHOWN_ITERATIONS
    assert "<title" in policy.svg
    assert "grpo: reward against KL" in policy.svg
    assert policy.words.startswith("Mean reward of an iteration: 0 at 0 nats of KL an answer, 0.705 at 0.33 nats of KL")
    assert policy.words in policy.svg
    assert ">nats of KL an answer</text>" in policy.svg


@pytest.mark.parametrize(
    ("limit", "marks", "words"),
    [
        (0.0, 0, "The training has no limit of the divergence."),
        (0.5, 1, "The training stops at 0.5 nats, the red mark at the foot."),
        (15.0, 0, "The training stops at 15 nats, beyond this figure."),
    ],
)
def test_a_limit_that_is_near_is_marked_and_each_is_told(limit: float, marks: int, words: str) -> None:
    (policy,) = drawn([Policy("grpo", iterations(12), limit)])
    assert policy.svg.count('class="mark"') == marks
    assert words in policy.legend


def test_the_largest_difference_between_sampling_and_training_is_told() -> None:
    curve = GetCurveResponse(metrics=[CurveMetric(name="kl", values=[CurveValue(step=1, value=9.0)])])
    told = []
    for value in (0.0, 0.125):
        told.append(drawn([Policy("grpo", iterations(2), compared=parity(curve))])[0].legend)
        values = [CurveValue(step=1, value=value), CurveValue(step=2, value=0.0)]
        curve.metrics.append(CurveMetric(name="training_apart", values=values))
    told.append(drawn([Policy("grpo", iterations(2), compared=parity(curve))])[0].legend)
    assert "No checkpoint says how" in told[0]
    assert "have the same bits" in told[1]
    assert "by at most 0.125 nats" in told[2]


def test_of_a_policy_without_a_finite_number_nothing_is_drawn() -> None:
    lost = Experience(name="experiences/j/0/0", reward_mean=1.0, kl=math.inf)
    assert drawn([Policy("grpo", ()), Policy("ppo", (lost,))]) == []
    assert drawn([Policy("grpo", (*iterations(2), lost))])[0].svg.count("<circle") == 2
    assert drawn([Policy("grpo", iterations(1))])[0].svg.count("<circle") == 1


def test_the_newest_line_of_a_job_is_shown_in_order() -> None:
    names = [f"experiences/j/{line}/{at}" for line, at in ((0, 0), (10, 11), (2, 1), (10, 2))]
    found = newest_line([Experience(name=name, iteration=int(name.split("/")[3])) for name in names])
    assert [each.name for each in found] == ["experiences/j/10/2", "experiences/j/10/11"]
    assert newest_line([]) == ()


def test_the_limit_is_that_of_the_training() -> None:
    parameters = written(GrpoParameters(prompts=1, group=2, tokens=4, stop_kl=12.5))
    assert stop_kl(json.dumps({"program_parameters": parameters})) == 12.5
    assert stop_kl(json.dumps({"program": "dpo"})) == stop_kl("") == 0.0


@pytest.mark.parametrize(("count", "most", "indices"), [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (9, 3, [0, 4, 8])])
def test_indices_are_spread_over_all(count: int, most: int, indices: list[int]) -> None:
    assert spread(count, most) == indices


def test_the_report_has_policies_and_leads_from_the_release_back_to_the_prompts() -> None:
    told = page(facts())
    assert [f'aria-labelledby="policy{at}-t' in told for at in range(3)] == [True, True, False]
    section = told.partition('<section id="ancestry">')[2].partition("</section>")[0]
    rows = re.findall(r'<tr id="stage-([^"]*)">(.*?)</tr>', section, re.DOTALL)
    made_from = {name: re.findall(r'href="#stage-([^"]*)"', row) for name, row in rows}
    assert list(made_from) == ["grpo-release", "grpo-compared", "grpo-final", "grpo", "asked"]
    assert made_from == {
        "grpo-release": ["grpo-compared"],
        "grpo-compared": ["grpo-final"],
        "grpo-final": ["grpo", "asked"],
        "grpo": ["asked"],
        "asked": [],
    }
    assert all("blake3:" in row for _, row in rows)
    assert "</a>, part train" in dict(rows)["grpo"]


def test_a_run_without_policies_or_inputs_has_no_such_sections() -> None:
    found = facts()
    bare = [{**each, "from": []} for each in found.summary["ancestry"]]
    told = page(replace(found, summary={**found.summary, "ancestry": bare}, policies=()))
    assert 'id="policies"' not in told
    assert 'id="ancestry"' not in told
