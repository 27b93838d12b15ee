"""The past of a model by the record: the trainings behind its checkpoint, turns of its demonstrations, and the subjects
by which it was judged for its release.

Promises: nothing is said that the record does not have; the prompts follow from the demonstrations alone.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobError
from tutti.chassis.errors import NotFound
from tutti.chat.asking import Asking
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.evaluation.v1 import Comparison, Release
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub, ReleaseServiceStub
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.corpus.conversations.conversations import Conversation, Role
from tutti.corpus.conversations.conversationset import Lines, in_part
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.judgements.crowds import Crowd, InvalidCrowd
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest

MOST_TRAININGS, SECONDS = 16, 5.0
READ_BYTES = 256 << 10
"""The most bytes of demonstrations in which prompts are looked for."""
PROMPTS, PROMPT_CHARACTERS, ANSWER_CHARACTERS = 4, 60, 200
LEAST_SHARE = 0.05
"""The share of the conversations from which on their most frequent answer is quoted."""
MANY_WORDS = 3
log = logging.getLogger(__name__)
WORD = re.compile(r"\w+")
LINES: Mapping[str, str] = {Kind.CONVERSATIONS: "conversations", Kind.PREFERENCES: "preferences"}


@dataclass(frozen=True)
class Trained:
    """A training: its program, its steps, and its data, such as "32,000 conversations"; empty if they are unknown."""

    program: str
    steps: int
    data: str


class Turn(NamedTuple):
    """A prompt, and its answer; empty where it has none."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Frequent:
    """An answer, and the share of the conversations that begin with it."""

    answer: str
    share: float


@dataclass(frozen=True)
class Past:
    """The trainings behind a model, the first one first; not `whole` if there were others that are not recorded.

    `prompts` are of its demonstrations, `often` is the answer that a large part of those has, if there is one.
    `subjects` are those that one can ask about, as the crowds of its release have them.
    """

    trainings: tuple[Trained, ...]
    whole: bool
    prompts: tuple[str, ...]
    often: Frequent | None
    subjects: tuple[str, ...] = ()


class Pasts:
    """Reads jobs and the data that they name, and the comparisons of releases."""

    def __init__(
        self,
        scheduler: SchedulerServiceStub,
        releases: ReleaseServiceStub,
        comparisons: ComparisonServiceStub,
        blobs: Blobs,
    ) -> None:
        self._scheduler, self._releases, self._comparisons = scheduler, releases, comparisons
        self._blobs = blobs

    def of(self, checkpoint: str, release: str, allows: Callable[[str, str], bool]) -> Past:
        """The past of a checkpoint with a release, which is empty for an experiment.

        `allows` says whether a prompt with its answer may be offered. Raises Unavailable, which names who is missing.
        """
        asking = Asking(SECONDS)
        trainings, begun, alone = list[Trained](), list[Turn](), list[Turn]()
        while checkpoint and len(trainings) < MOST_TRAININGS:
            try:
                asked = GetRequest(name=f"jobs/{checkpoint.split('/')[1]}")
                job: Job = asking.ask("scheduler", self._scheduler.GetJob, asked)
            except NotFound:
                break
            data, lines = self._data(job)
            training = job.spec.typed_training
            if lines is not None and not begun:
                talks = self._beginning(lines, training.part)
                begun, alone = beginnings_of(talks), standalone(talks)
            trainings.append(Trained(training.program or "pretrain", job.spec.steps, data))
            checkpoint = job.spec.initial
        often = frequent(begun)
        is_quoted = often.share >= LEAST_SHARE and len(often.answer) <= ANSWER_CHARACTERS and allows("", often.answer)
        prompts = suggested(alone, often.answer, allows)
        subjects = tuple(dict.fromkeys(self._subjects(release, asking)))
        return Past(tuple(reversed(trainings)), not checkpoint, prompts, often if is_quoted else None, subjects)

    def _subjects(self, release: str, asking: Asking) -> Iterator[str]:
        """The subjects of the crowds that judged for a release, except those of comparisons that are gone."""
        if not release:
            return
        try:
            found: Release = asking.ask("evaluation", self._releases.GetRelease, GetRequest(name=release))
        except NotFound:
            return
        for each in found.spec.comparisons:
            try:
                asked = GetRequest(name=each.name)
                compared: Comparison = asking.ask("evaluation", self._comparisons.GetComparison, asked)
                if compared.spec.crowd:  # people have none
                    yield from Crowd.read(compared.spec.crowd).language.subjects
            except (NotFound, InvalidCrowd) as error:
                log.warning("%s does not say what its model was asked about: %s", release, error)

    def _data(self, job: Job) -> tuple[str, Lines | None]:
        """The data of a job in words, and the lines of its conversations; nothing where they cannot be read here."""
        try:
            manifest = Manifest.decode(self._blobs.get(job.spec.dataset_manifest_key), expected=(Kind.DATASET, *LINES))
            if manifest.kind == Kind.DATASET:
                return f"{DatasetBody.read(manifest).train.targets:,} tokens of texts", None
            lines = Lines.of(manifest)
        except (BlobError, CorpusError):
            return "", None
        return f"{lines.count:,} {LINES[manifest.kind]}", lines if manifest.kind == Kind.CONVERSATIONS else None

    def _beginning(self, lines: Lines, part: str) -> Sequence[Conversation]:
        try:
            data = self._blobs.get_range(lines.blob, 0, min(READ_BYTES, lines.bytes))
            return list(in_part(data[: data.rfind(b"\n") + 1], part))
        except (BlobError, CorpusError):
            return []


def suggested(beginnings: Sequence[Turn], common: str, allows: Callable[[str, str], bool]) -> tuple[str, ...]:
    """Return a few short prompts, as different as they can be, with different answers.

    Those with the answer `common`, the most frequent one, which is often a refusal, come last, and before them those of
    one or two words.
    The first one is the first of the beginnings, whose order is that of digests, so that the prompts do not change.
    Each other one shares the fewest words with those before it, and then its answer with theirs (farthest-first
    traversal: Gonzalez 1985).
    """
    chosen = list[_Offer]()
    short = dict.fromkeys(each for each in beginnings if _is_short(each.prompt))
    offers = [_Offer(each, at, bool(common) and each.answer == common) for at, each in enumerate(short)]
    while offers and len(chosen) < PROMPTS:
        offers.sort(key=lambda each: each.rank(chosen))
        at = next((at for at, each in enumerate(offers) if allows(*each.turn)), len(offers))
        chosen += offers[at : at + 1]
        offers = [each for each in offers[at + 1 :] if each.is_other(chosen)]
    return tuple(each.turn.prompt for each in chosen)


def frequent(beginnings: Sequence[Turn]) -> Frequent:
    """The most frequent answer, the first of several; none if each has another one."""
    answers = Counter(each.answer for each in beginnings if each.answer)
    answer, count = max(answers.items(), key=lambda each: each[1], default=("", 0))
    return Frequent(answer, count / len(beginnings)) if count > 1 else Frequent("", 0.0)


class _Offer:
    """A beginning that may be offered: `at` is its place among the others."""

    def __init__(self, turn: Turn, at: int, is_common: bool) -> None:
        self.turn, self._at, self._is_common = turn, at, is_common
        self._words = [frozenset(WORD.findall(text.casefold())) for text in turn]

    def rank(self, chosen: Sequence["_Offer"]) -> tuple[bool, bool, float, float, int]:
        """The key by which offers are sorted, the next one to be chosen first: greetings say little of a model."""
        prompt, answer = (max((self._likeness(each, side) for each in chosen), default=0.0) for side in (0, 1))
        return self._is_common, len(self._words[0]) < MANY_WORDS, prompt, answer, self._at

    def is_other(self, chosen: Sequence["_Offer"]) -> bool:
        """False if it has the answer of a chosen one, or all of its words and no other."""
        return not any(
            each.turn.answer == self.turn.answer != "" or each._words[0] == self._words[0] for each in chosen
        )

    def _likeness(self, other: "_Offer", side: int) -> float:
        """The share of words that both have (Jaccard)."""
        mine, theirs = self._words[side], other._words[side]
        return len(mine & theirs) / max(1, len(mine | theirs))


def _is_short(prompt: str) -> bool:
    return len(prompt) <= PROMPT_CHARACTERS and prompt.isprintable() and bool(prompt.strip())


def beginnings_of(conversations: Iterable[Conversation]) -> list[Turn]:
    """The first turn of each conversation that a person begins."""
    return [each[0] for each in map(_turns, conversations) if each]


def standalone(conversations: Sequence[Conversation]) -> list[Turn]:
    """The first turns whose prompts do not lean on a turn before them, such as "Say that again".

    A prompt leans if its words are relatively more frequent among later turns than among first ones. This cannot be so
    for all prompts, so some remain wherever there are first turns.
    """
    talks = [each for each in map(_turns, conversations) if each]
    first = Counter(_words(each[0].prompt) for each in talks)
    later = Counter(_words(turn.prompt) for each in talks for turn in each[1:])
    leaning = {each for each in first if later[each] * first.total() > first[each] * later.total()}
    return [each[0] for each in talks if _words(each[0].prompt) not in leaning]


def _turns(conversation: Conversation) -> list[Turn]:
    """The turns of a conversation that a person begins; none of another one."""
    said = [each for each in conversation.messages if each.role is not Role.SYSTEM]
    if not said or said[0].role is not Role.USER:
        return []
    answers = [*said[1:], None]
    return [
        Turn(each.content, after.content if after is not None and after.role is Role.ASSISTANT else "")
        for each, after in zip(said, answers, strict=True)
        if each.role is Role.USER
    ]


def _words(text: str) -> str:
    """The words of a text, without case and marks."""
    return " ".join(WORD.findall(text.casefold()))
