"""Patterns matched over a text that grows, all of them at once, in time linear in the text.

Promises: a match is found at the atom that completes it, or at the one after it where a word must have ended; of those
that are found together, the one that begins first, of these that of the first rule. Nothing that may become a match, or
is one, is before `held`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chat.filter.folding import is_word
from tutti.chat.filter.rules import Rule, Step, Steps, steps


@dataclass(frozen=True)
class Match:
    """A rule by its number, and the places in the text where its match begins and ends."""

    rule: int
    begin: int
    end: int


class Patterns:
    """The automaton of some rules. A state is a number: a rule, and how many of its steps were made."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.step: list[str | Step] = []
        """The next step of each state."""
        self.next: list[tuple[int, ...]] = []
        """The states after it; those of matches are negative: -1 for rule 0."""
        self.first: dict[bool, dict[str, list[int]]] = {inside: defaultdict(list) for inside in (False, True)}
        """The states in which a match begins, by their character, for rules of words and those inside of them."""
        self.first_any: dict[bool, list[int]] = {False: [], True: []}
        for number, rule in enumerate(self.rules):
            self._add(number, rule, steps(rule.pattern))

    def _add(self, number: int, rule: Rule, found: Steps) -> None:
        base = len(self.step)

        def reached(at: int) -> tuple[int, ...]:
            """The states in which `at` steps were made, or more where these may be left out."""
            states = []
            while at < len(found):
                states.append(base + at)
                if found[at] is not Step.MAYBE:
                    return tuple(states)
                at += 1
            return (*states, -1 - number)

        for at, step in enumerate(found):
            self.step.append(step)
            self.next.append(reached(at + 1))
        for state in reached(0):
            step = self.step[state]
            if isinstance(step, str):
                self.first[rule.inside][step].append(state)
            else:
                self.first_any[rule.inside].append(state)


class Scan:
    """A text as far as it was read."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._states: dict[int, int] = {}
        self._ended: dict[int, Match] = {}
        self._in_word = False

    @property
    def held(self) -> int | None:
        """The beginning of the first part that may become a match; None without one."""
        begins = [*self._states.values(), *(each.begin for each in self._ended.values())]
        return min(begins, default=None)

    def push(self, atom: str, begin: int, end: int) -> Match | None:
        """Read an atom, which is at these places of the text. Return a match that it completes."""
        patterns, word = self._patterns, is_word(atom)
        found = [] if word else [*self._ended.values()]
        self._ended = {}
        states: dict[int, int] = {}
        for state, start in self._begun(atom, begin):
            for after in patterns.next[state]:
                if after >= 0:
                    states[after] = min(start, states.get(after, start))
                    continue
                match = Match(-1 - after, start, end)
                if patterns.rules[match.rule].inside:
                    found.append(match)
                elif match.rule not in self._ended or start < self._ended[match.rule].begin:
                    self._ended[match.rule] = match
        self._states, self._in_word = states, word
        return _first(found)

    def _begun(self, atom: str, begin: int) -> list[tuple[int, int]]:
        """The states that this atom continues, and where their matches began."""
        patterns, blank = self._patterns, atom[0].isspace()
        found = []
        for state, start in self._states.items():
            step = patterns.step[state]
            if step in atom if isinstance(step, str) else not blank:
                found.append((state, start))
        for inside in (False, True) if not self._in_word else (True,):
            for character in atom:
                found += [(state, begin) for state in patterns.first[inside].get(character, ())]
            if not blank:
                found += [(state, begin) for state in patterns.first_any[inside]]
        return found

    def finish(self) -> Match | None:
        """Return a match that the end of the text completes."""
        return _first([*self._ended.values()])


def _first(found: Sequence[Match]) -> Match | None:
    return min(found, key=lambda each: (each.begin, each.rule), default=None)
