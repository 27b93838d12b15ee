"""What a filter shows equals a naive reading of the finished text, however the text arrives in pieces.

The naive reading folds the whole text, tries every place for every rule by recursion, and then reads the sentences one
after another.
"""

import random
import re
from collections.abc import Iterator

import pytest
from tests.scale import parts, scale

from tutti.chassis.errors import InvalidField
from tutti.chat.filter.folding import folded
from tutti.chat.filter.release import Filter, Release, Windows, judged, of_rules
from tutti.chat.filter.rules import GAP, LONGEST, Judges, Rule, check

PARTS = 4
MOST = 24
PATTERNS = [
    *(Rule(f"r{at}", pattern) for at, pattern in enumerate(["bad secret", "evil*", "pl?n b", "*phobe", "a*z end"])),
    *(Rule(f"i{at}", pattern, inside=True) for at, pattern in enumerate(["cret", "x.y", "ee", "e*l", "ß1"])),
]
PIECES = [
    *("bad", " secret", "b\u00e1d", "s3cret", "ev\u200bil", "\u0435vil", " plan", " b", "the ", "zo", "zip ", "end. "),
    *(
        "\n",
        "e",
        "EE",
        "x",
        ".",
        "y",
        "ok ",
        "\u00df",
        "ss1",
        "a",
        "z",
        " ",
        "  ",
        "\t",
        "homo",
        "phobe",
        "\uff42ad",
        "!",
        "l",
    ),
    *("\u0301", "\u00ad", "\ufb01", "1", "@", "w" * 30),
]


def refused(window: str) -> str:
    """Stands for a classifier: a window with three z is refused."""
    return "zeds" if window.count("z") >= 3 else ""


def drawn(source: random.Random) -> tuple[Filter, str]:
    rules = source.sample(PATTERNS, source.choice([0, 1, 3, len(PATTERNS)]))
    windows = Windows("zoo", "1", MOST, refused) if source.random() < 0.6 else None
    return of_rules(rules, windows), "".join(source.choices(PIECES, k=source.randint(0, 20)))


def atoms_of(text: str) -> list[tuple[str, int]]:
    """The atoms of a text, each with the place of its character."""
    found: list[tuple[str, int]] = []
    for at, character in enumerate(text):
        if character.isspace():
            atoms = [] if found and found[-1][0] == " " else [" "]
        else:
            atoms = [each for each in folded(character)]
        found += [(atom, at) for atom in atoms]
    return found


def ends(pattern: str, atoms: list[str], at: int) -> Iterator[int]:
    """The places at which a match of the rest of a pattern ends that begins at an atom."""
    if not pattern:
        yield at
    elif pattern[0] == "*":
        for count in range(GAP + 1):
            if " " not in atoms[at : at + count] and at + count <= len(atoms):
                yield from ends(pattern[1:], atoms, at + count)
    elif at < len(atoms) and (atoms[at] != " " if pattern[0] == "?" else pattern[0] in atoms[at]):
        yield from ends(pattern[1:], atoms, at + 1)


def matches(rules: tuple[Rule, ...], text: str) -> list[tuple[int, int, int, int]]:
    """All matches: the place of the character that decides it, where it begins, its rule, where it ends."""
    pairs = atoms_of(text)
    atoms, places = [atom for atom, _ in pairs], [place for _, place in pairs]
    found = []
    for number, rule in enumerate(rules):
        pattern = "".join(each if each in "*?" else "".join(atom[0] for atom in folded(each)) for each in rule.pattern)
        for begin in range(len(atoms)):
            if not rule.inside and begin and atoms[begin - 1][0].isalnum():
                continue
            for end in set(ends(pattern, atoms, begin)):
                if end == begin:
                    continue
                decided = end - 1
                if not rule.inside:
                    if end < len(atoms) and atoms[end][0].isalnum():
                        continue
                    decided = end
                order = decided if decided < len(atoms) else len(atoms)
                found.append((order, places[begin], number, places[end - 1] + 1))
    return [(places[order] if order < len(places) else len(text), *rest) for order, *rest in sorted(found)]  # type: ignore[misc]


def naive(of: Filter, text: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The text that may be shown, and the decisions: rule, begin, end."""
    rules, windows = of.answer.patterns.rules, of.answer.windows
    first = matches(rules, text)[:1]
    limit = first[0][0] if first else len(text)
    bounds, at = [0], 0
    while windows:
        rest = text[at : at + MOST]
        mark = re.search(r"[.!?][\"')\]]*\s|\n", rest)
        if mark:
            length, known = mark.end(), at + mark.end() - 1
        elif len(rest) == MOST:
            spaces = [place + 1 for place, each in enumerate(rest) if each.isspace()]
            length, known = spaces[-1] if spaces else MOST, at + MOST - 1
        else:
            break
        if known >= limit and first:
            break
        at += length
        begin = min(each for each in bounds if at - each <= MOST)
        if refused(text[begin:at]):
            return text[:begin], [("zoo.zeds", begin, at)]
        bounds.append(at)
    decisions, cut = [], len(text)
    if first:
        _, cut, number, end = first[0]
        decisions.append((rules[number].name, cut, end))
    if windows and cut > bounds[-1]:  # else its characters were judged
        begin = min(each for each in bounds if cut - each <= MOST)
        if refused(text[begin:cut]):
            decisions.append(("zoo.zeds", begin, cut))
            cut = begin
    return text[:cut], decisions


def pieces(source: random.Random, text: str) -> Iterator[str]:
    at, most = 0, source.choice([1, 3, 8, 50])
    while at < len(text):
        size = source.randint(1, most)
        yield text[at : at + size]
        at += size


@parts(PARTS)
def test_what_is_shown_and_decided_is_that_of_the_finished_text(part: int) -> None:
    source = random.Random(part)
    stopped = 0
    for _ in range(scale(test=10_000, soak=1_000_000) // PARTS):
        of, text = drawn(source)
        shown, decisions = naive(of, text)
        release, out = Release(of.answer), ""
        for piece in pieces(source, text):
            out += release.push(piece)
            assert shown.startswith(out)
        out += release.finish()
        found = [(each.rule, each.begin, each.end) for each in release.decisions]
        assert (out, found) == (shown, decisions), (of.answer.patterns.rules, text)
        assert (release.cut is None) == (not decisions)
        stopped += bool(decisions)
    assert stopped > 100


def test_what_was_judged_and_shown_is_not_judged_again_before_a_match() -> None:
    """A match that spans the end of a window begins where the text before it has three z, but no window of it has."""
    rule = Rule("long", "q" + "a" * MOST, inside=True)
    text = "z zzq" + "a" * MOST
    release, out = Release(of_rules([rule], Windows("zoo", "1", MOST, refused)).answer), ""
    for character in text[:-1]:
        out += release.push(character)
    assert out == "z zz"
    assert release.push(text[-1]) + release.finish() == ""
    assert [(each.rule, each.begin, each.end) for each in release.decisions] == [("long", 4, len(text))]


def test_what_was_shown_has_no_match_of_a_rule_inside_words() -> None:
    source, rules = random.Random(7), [each for each in PATTERNS if each.inside]
    stopped = 0
    for _ in range(scale(test=500, soak=20_000)):
        _, text = drawn(source)
        release = Release(of_rules(rules).answer)
        out = "".join(release.push(piece) for piece in pieces(source, text)) + release.finish()
        assert not matches(tuple(rules), out)
        stopped += bool(release.decisions)
    assert stopped > 50


@pytest.mark.parametrize(
    "text",
    [
        *("Project Nightfall", "PROJECT   NIGHTFALL", "pr\u200boj\u00adect nightfall", "project\nnightfall"),
        *("pr\u043eject nightf\u0430ll", "\uff50roject nightfall", "proj\u00e9ct nightfall", "pr0ject n1ghtf@ll"),
        *("\U0001d429roject nightfall", "\u24dfroject nightfall", "(project nightfall)", "p\u0335roject nightfall"),
    ],
)
def test_disguised_words_match(text: str) -> None:
    side = of_rules([Rule("secret", "project nightfall")]).answer
    assert [each.rule for each in judged(side, f"It is {text}.").decisions] == ["secret"]


@pytest.mark.parametrize("text", ["projects nightfall", "project nightfalls", "a project. nightfall", "project night"])
def test_other_words_do_not_match(text: str) -> None:
    assert not judged(of_rules([Rule("secret", "project nightfall")]).answer, text).decisions


def test_rules_judge_the_side_that_they_name() -> None:
    rules = [Rule(side.value, f"word {side.value}", side) for side in Judges]
    of, text = of_rules(rules), "word prompt. {} word answer. word both."
    assert judged(of.prompt, text).decisions[0].rule == "prompt"
    assert judged(of.answer, text).decisions[0].rule == "answer"


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([Rule("a", "ab"), Rule("a", "abc")], "rules[1].name"),
        ([Rule("A", "ab")], "rules[0].name"),
        ([Rule("a", "a")], "rules[0].pattern"),
        ([Rule("a", "***")], "rules[0].pattern"),
        ([Rule("a", " ab")], "rules[0].pattern"),
        ([Rule("a", "a" * (LONGEST + 1))], "rules[0].pattern"),
        ([Rule("a", "ab" + "*" * GAP)], "rules[0].pattern"),
        ([Rule("a", "ab", version=0)], "rules[0].version"),
        ([Rule(f"a{at}", "b" * 100) for at in range(100)], "rules"),
        ([Rule(f"a{at}", "bb") for at in range(300)], "rules"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_by_its_field(rules: list[Rule], field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        check(rules)
    assert refusal.value.field == field


def test_a_pattern_declares_the_longest_text_that_it_matches() -> None:
    assert (Rule("a", "ab c?").longest, Rule("a", "a*b").longest, Rule("a", r"a\*b").longest) == (5, 2 + GAP, 3)


def test_hostile_patterns_and_texts_take_time_linear_in_the_text() -> None:
    """Counted, not timed: the states in progress are at most those of the patterns."""
    side = of_rules([Rule(f"a{at}", "a*" * 8 + "b", inside=True) for at in range(8)]).answer
    release = Release(side)
    for _ in range(100):
        release.push("a")
        assert len(release._scan._states) <= len(side.patterns.step)


def test_every_character_folds_alone() -> None:
    """Two characters fold as each of them does, except white space."""
    source = random.Random(1)
    for _ in range(2000):
        one, two = (chr(source.choice([source.randrange(0x3000), source.randrange(0xD800)])) for _ in range(2))
        if " " not in [*folded(one), *folded(two)]:
            assert [*folded(one + two)] == [*folded(one), *folded(two)]
