"""Release: which part of a text may be shown, while the text grows.

Promises: what is shown and decided follows from the text alone, however it arrives in pieces: it is what `judged` says
of the finished text, and its beginnings. A text ends before the first match of a pattern, or before the first window
that the classifier refuses, whichever is complete first; what is before a match, and in no window that was judged, is
judged like the end of a text. No character of a match, of a part that may become one, or of a window that was not
judged, is ever shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tutti.chat.filter.folding import Folder
from tutti.chat.filter.patterns import Match, Patterns, Scan
from tutti.chat.filter.rules import Judges, Rule, digest_of
from tutti.corpus.quality.windows import begin_of, next_end

Score = Callable[[str], str]
"""Judges a window: the label as which it is refused, or nothing."""


@dataclass(frozen=True)
class Decision:
    """A rule refused the characters from `begin` to `end` of a text. `place`: the message, -1 for the answer."""

    rule: str
    version: str
    place: int
    begin: int
    end: int


@dataclass(frozen=True)
class Windows:
    """A classifier of windows of at most `most` characters, by its name and the beginning of its digest."""

    name: str
    version: str
    most: int
    score: Score


@dataclass(frozen=True)
class Side:
    """The rules for prompts or for answers; `windows` may be missing."""

    patterns: Patterns
    windows: Windows | None

    @property
    def is_empty(self) -> bool:
        return not self.patterns.rules and self.windows is None


@dataclass(frozen=True)
class Filter:
    """`digest` names the rules and the classifier; empty for a filter that refuses nothing."""

    digest: str
    prompt: Side
    answer: Side


def of_rules(
    rules: Sequence[Rule], windows: Windows | None = None, classifier: str = "", judges: Judges = Judges.BOTH
) -> Filter:
    """The filter of rules and of a classifier, NAME@DIGEST, which judges these sides."""
    sides = (
        Side(Patterns([each for each in rules if each.judges.prompt]), windows if judges.prompt else None),
        Side(Patterns([each for each in rules if each.judges.answer]), windows if judges.answer else None),
    )
    return Filter(digest_of(rules, classifier, judges), *sides)


NONE = of_rules([])


@dataclass
class Release:
    """One text. `decisions`: why it was stopped, the rule that stopped it first; `cut`: where, once it was."""

    side: Side
    place: int = -1
    decisions: list[Decision] = field(default_factory=list)
    cut: int | None = None
    _text: str = ""
    _read: int = 0
    _shown: int = 0
    _bounds: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        self._folder, self._scan = Folder(), Scan(self.side.patterns)

    def push(self, piece: str) -> str:
        """Read the next characters. Return those that may be shown now."""
        if self.side.is_empty:
            return piece
        self._text += piece
        while self._read < len(self._text) and self.cut is None:
            character, self._read = self._text[self._read], self._read + 1
            self._take(character, self._read)
        return self._released(self._free())

    def finish(self) -> str:
        """Return the rest that may be shown, at the end of the text."""
        if self.cut is None and not self.side.is_empty:
            if match := self._scan.finish():
                self._stop_at(match)
            else:
                self._judge_rest(len(self._text))
        return self._released(len(self._text) if self.cut is None else self.cut)

    def _take(self, character: str, end: int) -> None:
        match = None
        if self.side.patterns.rules:
            for atom in self._folder.push(character):
                if match := self._scan.push(atom, end - 1, end):
                    break
        if match:
            self._stop_at(match)
        elif self.side.windows is not None:
            begin, most = self._bounds[-1], self.side.windows.most
            if not character.isspace() and end - begin < most:
                return
            if (length := next_end(self._text[begin:end], 0, most)) is not None:
                self._judge(begin + length)
                self._bounds.append(begin + length)

    def _stop_at(self, match: Match) -> None:
        rule = self.side.patterns.rules[match.rule]
        self.decisions.append(Decision(rule.name, str(rule.version), self.place, match.begin, match.end))
        self._judge_rest(match.begin)
        self.cut = match.begin if self.cut is None else self.cut

    def _judge_rest(self, end: int) -> None:
        """Judge the window that ends here, unless a window that was judged ends here or later."""
        if self.side.windows is not None and end > self._bounds[-1]:
            self._judge(end)

    def _judge(self, end: int) -> None:
        windows = self.side.windows
        assert windows is not None
        begin = begin_of(self._bounds, end, windows.most)
        if label := windows.score(self._text[begin:end]):
            self.decisions.append(Decision(f"{windows.name}.{label}", windows.version, self.place, begin, end))
            self.cut = begin

    def _free(self) -> int:
        """Up to where the text may be shown, whatever follows."""
        if self.cut is not None:
            return self.cut
        free, held = self._read, self._scan.held
        if self.side.windows is not None:
            free = begin_of(self._bounds, self._bounds[-1] + 1, self.side.windows.most)
        return free if held is None else min(free, held)

    def _released(self, end: int) -> str:
        shown, self._shown = self._text[self._shown : end], max(self._shown, end)
        return shown


def judged(side: Side, text: str, place: int = -1) -> Release:
    """A finished text, judged; `decisions` is empty if all of it may be shown."""
    release = Release(side, place)
    release.push(text)
    release.finish()
    return release
