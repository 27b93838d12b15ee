"""The past of a model by the record: the trainings behind its checkpoint, and prompts of its demonstrations.

Promises: nothing is said that the record does not have; the prompts follow from the demonstrations alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobError
from tutti.chassis.errors import NotFound
from tutti.chat.asking import Asking
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.corpus.conversations.conversations import Conversation, Role
from tutti.corpus.conversations.conversationset import Lines, in_part
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest

MOST_TRAININGS, SECONDS = 16, 5.0
READ_BYTES = 256 << 10
"""The most bytes of demonstrations in which prompts are looked for."""
PROMPTS, PROMPT_CHARACTERS = 4, 60
LINES: Mapping[str, str] = {Kind.CONVERSATIONS: "conversations", Kind.PREFERENCES: "preferences"}


@dataclass(frozen=True)
class Trained:
    """A training: its program, its steps, and its data, such as "32,000 conversations"; empty if they are unknown."""

    program: str
    steps: int
    data: str


@dataclass(frozen=True)
class Past:
    """The trainings behind a model, the first one first; not `whole` if there were others that are not recorded."""

    trainings: tuple[Trained, ...]
    whole: bool
    prompts: tuple[str, ...]


class Pasts:
    """Reads jobs and the data that they name."""

    def __init__(self, scheduler: SchedulerServiceStub, blobs: Blobs) -> None:
        self._scheduler, self._blobs = scheduler, blobs

    def of(self, checkpoint: str, allows: Callable[[str, str], bool]) -> Past:
        """The past of a checkpoint; `allows` says whether a prompt with its answer may be offered.

        Raises Unavailable, which names who is missing.
        """
        asking = Asking(SECONDS)
        trainings, prompts = list[Trained](), tuple[str, ...]()
        while checkpoint and len(trainings) < MOST_TRAININGS:
            try:
                asked = GetRequest(name=f"jobs/{checkpoint.split('/')[1]}")
                job: Job = asking.ask("scheduler", self._scheduler.GetJob, asked)
            except NotFound:
                break
            data, lines = self._data(job)
            training = job.spec.typed_training
            if lines is not None and not prompts:
                prompts = suggested(self._beginning(lines, training.part), allows)
            trainings.append(Trained(training.program or "pretrain", job.spec.steps, data))
            checkpoint = job.spec.initial
        return Past(tuple(reversed(trainings)), not checkpoint, prompts)

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


def suggested(conversations: Sequence[Conversation], allows: Callable[[str, str], bool]) -> tuple[str, ...]:
    """Return a few short prompts that begin conversations, with different answers, in the order of the conversations.

    That order is the one of their digests, so the prompts are a sample that does not change.
    """
    found: dict[str, str] = {}
    for prompt, answer in _beginnings(conversations):
        is_short = len(prompt) <= PROMPT_CHARACTERS and prompt.isprintable() and prompt.strip()
        different = answer or prompt
        if is_short and different not in found and prompt not in found.values() and allows(prompt, answer):
            found[different] = prompt
        if len(found) == PROMPTS:
            break
    return tuple(found.values())


def _beginnings(conversations: Sequence[Conversation]) -> Iterator[tuple[str, str]]:
    """The first prompt of each conversation, with its answer; empty where it has none."""
    for each in conversations:
        turns = [message for message in each.messages if message.role is not Role.SYSTEM]
        if turns and turns[0].role is Role.USER:
            yield turns[0].content, turns[1].content if len(turns) > 1 else ""
