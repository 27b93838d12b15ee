"""Figures of the iterations of a policy: what is drawn where."""

import math

from tutti.contracts.sampling.v1 import Experience
from tutti.web.charts import Series, chart, describe
from tutti.web.rollouts import NATS, curves, is_marked, reward_against_kl

FOUND = [
    Experience(iteration=at, step=2 * at, kl=kl, reward_mean=reward, answer_tokens=4.5)
    for at, (kl, reward) in enumerate([(0.0, 0.1), (0.4, 0.3), (0.2, 0.2), (math.nan, 0.9)])
]


def test_reward_against_kl_has_a_point_an_iteration_in_order() -> None:
    series = reward_against_kl(FOUND)
    assert list(series.points) == list(series.dots) == [(0.0, 0.1), (0.4, 0.3), (0.2, 0.2)]
    assert describe(series) == (
        f"Mean reward of an iteration: 0.1 at 0 {NATS}, 0.2 at 0.2 {NATS}, lowest 0.1 at 0 {NATS}."
    )
    assert [each.across for each in curves(FOUND)] == [NATS, "step", "step", "step"]
    assert [step for step, _ in curves(FOUND)[1].points] == [0, 2, 4, 6]


def test_the_axis_of_a_divergence_begins_at_0_and_holds_the_limit() -> None:
    drawn = chart(reward_against_kl(FOUND[1:], limit=0.8), ident="c")
    assert f">{NATS}</text>" in drawn
    assert '<line class="mark" x1="298.0"' in drawn  # the right end
    assert '<circle class="dot" cx="178.0"' in drawn  # 0.4, half of the way from 0
    assert ">0.4</text>" in drawn
    assert 'class="mark"' not in chart(reward_against_kl(FOUND, limit=0.9), ident="c")
    assert not is_marked(FOUND, 0.0)
    assert not is_marked([], 1.0)


def test_steps_are_whole_numbers_from_the_first_one() -> None:
    drawn = chart(Series("Loss", "Nats", [(5, 1.0), (9, 2.0)]), ident="c")
    assert ">step</text>" in drawn
    assert ">5</text>" in drawn
    assert 'd="M58.0 ' in drawn
