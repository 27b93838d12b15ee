"""The rules of a gate: what passes, and what is said of what does not."""

from tutti.evaluation.rules import Compared, findings

LIMITS = {"win": 0.5, "gap": 0.2, "kl": 15.0}


def broken(compared: Compared, limits: dict[str, float] = LIMITS) -> dict[str, str]:
    return {each.rule: each.words for each in findings([compared], limits) if not each.passed}


def test_a_policy_that_wins_as_promised_near_its_baseline_passes() -> None:
    assert broken(Compared("comparisons/a", judged=0.71, low=0.65, promised=0.8, divergence=2.0)) == {}


def test_a_policy_that_has_exploited_its_reward_model_breaks_all_three() -> None:
    found = broken(Compared("comparisons/a", judged=0.21, low=0.17, promised=0.93, divergence=31.0))
    assert found == {
        "win": "win: the low bound of the judged win rate 0.21 of 0 judgements, at the level 0.05 of try 1, is 0.17; "
        "expected above 0.5",
        "gap": "gap: the gap between promised and judged win rate is 0.72; expected at most 0.2",
        "kl": "kl: the KL divergence from the baseline is 31; expected at most 15 nats an answer",
    }


def test_a_tie_does_not_win_and_a_limit_that_is_met_holds() -> None:
    compared = Compared("comparisons/a", judged=0.5, low=0.5, promised=0.7, divergence=15.0)
    assert list(broken(compared)) == ["win"]


def test_what_was_not_measured_breaks_its_rule_and_only_rules_with_a_limit_are_applied() -> None:
    compared = Compared("comparisons/a", judged=0.7, low=0.6, promised=None, divergence=None)
    assert list(broken(compared)) == ["gap", "kl"]
    assert "not measured" in broken(compared)["gap"]
    assert broken(compared, {"win": 0.5}) == {}
