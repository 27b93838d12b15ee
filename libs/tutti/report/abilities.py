"""The abilities of the models of a run, from their answers to prompts whose demands are known.

Pure. It is about the samples of comparisons that a simulated crowd judges: the language of the crowd says which demands
an answer meets. A statement follows from a 95 % interval, never from a mean alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.client.plain import Plain
from tutti.judgements.intervals import Proportion
from tutti.judgements.languages import Language

SHOWN_PROMPTS = 5
NEARLY, HALF = 0.9, 0.5
ALL = "it meets all of them"


@dataclass(frozen=True)
class Contest:
    """A comparison by its stage, with the stages of both samples, and the verdict of the gate, "" without one."""

    stage: str
    baseline: str
    candidate: str
    comparison: Plain
    release: str = ""


@dataclass(frozen=True)
class Held:
    """The loss of a model on held-out samples, in nats a token, and what these are."""

    stage: str
    loss: float
    of: str


@dataclass(frozen=True)
class Writer:
    """A sample by its stage: its mean utility, and the rate of each demand that its answers meet."""

    name: str
    utility: float
    rates: Mapping[str, Proportion]

    def told(self) -> list[str]:
        """The demands by how often they are met, in sentences."""
        kinds: tuple[tuple[str, Callable[[Proportion], bool]], ...] = (
            ("in at least 90 % of its answers", lambda rate: rate.low >= NEARLY),
            ("in most answers", lambda rate: HALF < rate.low < NEARLY),
            ("in about half of them", lambda rate: rate.low <= HALF <= rate.high),
            ("in fewer than half", lambda rate: 1 - NEARLY < rate.high < HALF),
            ("in at most 10 %", lambda rate: rate.high <= 1 - NEARLY),
        )
        found = []
        for words, holds in kinds:
            if demands := [f"{name}: {rate}" for name, rate in self.rates.items() if holds(rate)]:
                found.append(f"{words}: {', '.join(demands)}")
        return found


@dataclass(frozen=True)
class Example:
    """A prompt, and each writer's answer with the demands that it does not meet."""

    prompt: str
    answers: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Group:
    """The writers that answered the same prompts, each baseline before its candidates; `verdicts` is a line each."""

    prompts: int
    writers: tuple[Writer, ...]
    demands: tuple[str, ...]
    verdicts: tuple[str, ...]
    examples: tuple[Example, ...]
    unseen: str

    @property
    def best(self) -> Writer:
        """The writer with the highest mean utility; the first of several."""
        return max(self.writers, key=lambda each: each.utility)


@dataclass(frozen=True)
class Answers:
    """The comparisons of a run, the answers of each sample by its stage, and losses on held-out samples."""

    contests: tuple[Contest, ...] = ()
    answers: Mapping[str, Sequence[Plain]] = field(default_factory=dict)
    languages: Mapping[str, Language] = field(default_factory=dict)
    held: tuple[Held, ...] = ()


def groups(found: Answers) -> list[Group]:
    """The comparisons whose language is known, by the prompts that were answered."""
    by_prompts: dict[tuple[str, ...], list[Contest]] = {}
    for contest in found.contests:
        if contest.stage in found.languages and found.answers.get(contest.baseline):
            by_prompts.setdefault(_prompts(found.answers[contest.baseline]), []).append(contest)
    return [_group(found, contests) for contests in by_prompts.values()]


def verdict(contest: Contest) -> str:
    """A sentence that says if the candidate is better, with its numbers, and the decision of the gate."""
    wins, judgements = contest.comparison["wins"], contest.comparison["judgements"]
    if wins["low"] > HALF:
        said = "is better than"
    elif wins["high"] < HALF:
        said = "is worse than"
    else:
        said = "was not shown to be better than"
    told = (
        f"{contest.candidate} {said} {contest.baseline}: it wins {wins['mean']:.1%} ({wins['low']:.1%} to "
        f"{wins['high']:.1%}) of {judgements:,} simulated judgements"
    )
    return f"{told}; gate: {contest.release}" if contest.release else told


def _group(found: Answers, contests: Sequence[Contest]) -> Group:
    language = found.languages[contests[0].stage]
    names = [name for name in _ordered(contests) if found.answers.get(name)]
    writers = tuple(_writer(name, found.answers[name], language) for name in names)
    return Group(
        prompts=len(found.answers[names[0]]),
        writers=writers,
        demands=tuple(writers[0].rates),
        verdicts=tuple(map(verdict, contests)),
        examples=tuple(_examples(found, names, language)),
        unseen=language.unseen,
    )


def _ordered(contests: Sequence[Contest]) -> list[str]:
    """The names of the samples: each baseline before its candidates."""
    candidates, found = {each.candidate for each in contests}, list[str]()

    def visit(name: str) -> None:
        if name not in found:
            found.append(name)
            for each in contests:
                if each.baseline == name:
                    visit(each.candidate)

    baselines = [each.baseline for each in contests]
    for name in (*(each for each in baselines if each not in candidates), *baselines):
        visit(name)
    return found


def _writer(name: str, answers: Sequence[Plain], language: Language) -> Writer:
    met = [_met(each, language) for each in answers]
    rates = {demand: Proportion.of(sum(each[demand] for each in met), len(met)) for demand in met[0]}
    rates[ALL] = Proportion.of(sum(all(each.values()) for each in met), len(met))
    utilities = [language.utility(_prompt(each), each["text"], ended=_ended(each)) for each in answers]
    return Writer(name, sum(utilities) / len(utilities), rates)


def _examples(found: Answers, names: Sequence[str], language: Language) -> list[Example]:
    shown = []
    for first in found.answers[names[0]][:SHOWN_PROMPTS]:
        answers = []
        for name in names:
            of = next((each for each in found.answers[name] if _key(each) == _key(first)), None)
            if of is not None:
                missed = tuple(demand for demand, holds in _met(of, language).items() if not holds)
                answers.append((name, of["text"], missed))
        shown.append(Example(_prompt(first), tuple(answers)))
    return shown


def _met(answer: Plain, language: Language) -> Mapping[str, bool]:
    return language.criteria(_prompt(answer), answer["text"], ended=_ended(answer))


def _prompts(answers: Sequence[Plain]) -> tuple[str, ...]:
    return tuple(sorted(map(_prompt, answers)))


def _prompt(answer: Plain) -> str:
    return str(answer["messages"][-1]["content"])


def _key(answer: Plain) -> tuple[str, int]:
    return _prompt(answer), int(answer["number"])


def _ended(answer: Plain) -> bool:
    return bool(answer["stop"] == "end")
