"""Rules of a filter as values, checked where they enter.

Promises: every pattern says how long a text it can match, which is limited, and is matched in time linear in the text;
what is wrong with a rule is named by its field.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tutti.chassis.errors import InvalidField
from tutti.chat.filter.folding import FOLDING_VERSION, SPACE, folded
from tutti.corpus.quality.windows import WINDOWS_VERSION
from tutti.records.canonical import JsonValue, content_digest

FILTER_VERSION = f"1.{FOLDING_VERSION}.{WINDOWS_VERSION}"
LONGEST = 256
"""Folded characters of the longest text that a pattern may match."""
GAP = 16
"""Characters that a `*` matches, at most."""
MOST_RULES, MOST_STEPS, MOST_PATTERN = 256, 8192, 1000
LEAST_LETTERS = 2
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class Judges(Enum):
    """The side of a request that a rule judges."""

    PROMPT = "prompt"
    ANSWER = "answer"
    BOTH = "both"

    @property
    def prompt(self) -> bool:
        return self is not Judges.ANSWER

    @property
    def answer(self) -> bool:
        return self is not Judges.PROMPT


class Step(Enum):
    """A step of a pattern that is no certain character."""

    ANY = "?"
    """One character that is no white space."""
    MAYBE = "*"
    """The same, or nothing."""


Steps = tuple[str | Step, ...]


@dataclass(frozen=True)
class Rule:
    """A pattern that is not shown, or not answered. `inside`: it matches inside words too, and not only whole ones."""

    name: str
    pattern: str
    judges: Judges = Judges.BOTH
    inside: bool = False
    version: int = 1

    @property
    def longest(self) -> int:
        """The number of folded characters of the longest text that it matches."""
        return len(steps(self.pattern))


def steps(pattern: str) -> Steps:
    """The steps of a pattern: folded characters; `?` is a character, `*` up to GAP of them, `\\` makes them plain."""
    found: list[str | Step] = []
    for part in re.findall(r"\\.|[*?]|[^*?\\]+|\\", pattern, re.DOTALL):
        if part == "?":
            found.append(Step.ANY)
        elif part == "*":
            found += [Step.MAYBE] * GAP
        else:
            plain = part[1:] if part.startswith("\\") and len(part) > 1 else part
            found += [atom[0] for atom in folded(plain)]
    return tuple(each for at, each in enumerate(found) if each != SPACE or at == 0 or found[at - 1] != SPACE)


def check(rules: Sequence[Rule], place: str = "rules") -> None:
    """Raises InvalidField naming what cannot work."""
    if len(rules) > MOST_RULES:
        raise InvalidField(place, seen=f"{len(rules)} rules", expected=f"at most {MOST_RULES}")
    names = [each.name for each in rules]
    for number, rule in enumerate(rules):
        at = f"{place}[{number}]"
        if not NAME.fullmatch(rule.name) or names.index(rule.name) < number:
            expected = "a name of its own: at most 40 of a-z 0-9 _ -, a letter first"
            raise InvalidField(f"{at}.name", seen=rule.name, expected=expected)
        if not 1 <= rule.version <= 2**31 - 1:
            raise InvalidField(f"{at}.version", seen=rule.version, expected="a whole number from 1 on")
        if len(rule.pattern) > MOST_PATTERN:
            seen, expected = f"{len(rule.pattern)} characters", f"at most {MOST_PATTERN}"
            raise InvalidField(f"{at}.pattern", seen=seen, expected=expected)
        found = steps(rule.pattern)
        letters = sum(isinstance(each, str) and each != SPACE for each in found)
        if letters < LEAST_LETTERS:
            expected = f"at least {LEAST_LETTERS} characters beside spaces, * and ?"
            raise InvalidField(f"{at}.pattern", seen=rule.pattern, expected=expected)
        if found[0] == SPACE or found[-1] == SPACE:
            raise InvalidField(f"{at}.pattern", seen=rule.pattern, expected="no space at its beginning or its end")
        if len(found) > LONGEST:
            expected = f"one that matches at most {LONGEST} characters; each * counts {GAP}"
            raise InvalidField(f"{at}.pattern", seen=f"one that matches {len(found)}", expected=expected)
    if (size := sum(each.longest for each in rules)) > MOST_STEPS:
        expected = f"patterns that match at most {MOST_STEPS} characters together"
        raise InvalidField(place, seen=f"{size} characters", expected=expected)


def digest_of(rules: Sequence[Rule], classifier: str, judges: Judges) -> str:
    """The digest of all that decides what a filter does; empty for none."""
    if not rules and not classifier:
        return ""
    listed: list[JsonValue] = [
        [each.name, each.pattern, each.judges.value, each.inside, each.version] for each in rules
    ]
    value: dict[str, JsonValue] = {"version": FILTER_VERSION, "rules": listed}
    value |= {"classifier": classifier, "judges": judges.value if classifier else ""}
    return content_digest(value, kind="release filter")
