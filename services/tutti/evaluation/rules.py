"""The rules of a gate, applied to comparisons of one candidate with a baseline.

Pure. A policy can exploit its reward model, and other reward models do not see it; so the rules ask what fresh
judgements say of the policy's own answers, whether the reward model's promise agrees, and how far the policy has moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.records.canonical import JsonValue

WIN, GAP, KL = "win", "gap", "kl"
NAMES = (WIN, GAP, KL)
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of a comparison: the judged win rate of so many judgements and its low bound at the `level` of this
    try, and what was measured by models, or None.
    """

    name: str
    judged: float
    low: float
    promised: float | None
    divergence: float | None
    judgements: int = 0
    tries: int = 1
    level: float = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a rule for a comparison; `seen` is None if it was not measured, which breaks the rule. `of` has the
    figures of the comparison.
    """

    rule: str
    comparison: str
    seen: float | None
    limit: float
    of: Compared

    @property
    def passed(self) -> bool:
        if self.seen is None:
            return False
        return self.seen > self.limit if self.rule == WIN else self.seen <= self.limit

    @property
    def words(self) -> str:
        """The rule, what was seen and what was expected."""
        seen = "not measured (give the comparison a reward model)" if self.seen is None else f"{self.seen:.3g}"
        what, side = {
            WIN: ("the low bound of the judged win rate", "above"),
            GAP: ("the gap between promised and judged win rate", "at most"),
            KL: ("the KL divergence from the baseline", "at most"),
        }[self.rule]
        unit = " nats an answer" if self.rule == KL else ""
        if self.rule == WIN:
            what = f"{what} {self.of.judged:.3g} of {self.of.judgements:,} judgements, at the level {self.of.level:.2g}"
            what += f" of try {self.of.tries},"
        return f"{self.rule}: {what} is {seen}; expected {side} {self.limit:.3g}{unit}"

    def to_json(self, number: int) -> dict[str, JsonValue]:
        """The finding with the number of its comparison instead of the name, which is another in another place."""
        return {
            "comparison": number,
            "limit": self.limit,
            "passed": self.passed,
            "rule": self.rule,
            "seen": None if self.seen is None else round(self.seen, DIGITS),
            **({"judgements": self.of.judgements, "try": self.of.tries} if self.rule == WIN else {}),
        }


def findings(compared: Sequence[Compared], limits: Mapping[str, float]) -> list[Finding]:
    """Apply each rule that has a limit to each comparison."""
    return [
        Finding(rule, each.name, _seen(rule, each), limits[rule], each) for each in compared for rule in sorted(limits)
    ]


def _seen(rule: str, compared: Compared) -> float | None:
    if rule == WIN:
        return compared.low
    if rule == KL:
        return compared.divergence
    return None if compared.promised is None else abs(compared.promised - compared.judged)
