"""Conversations as work: a folder, or a file, of prompts or demonstrations becomes JSON lines with parts of a split.

Promises: the same conversations and split give the same lines; where they lie is told to nobody.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_content
from tutti.contracts.ingest.v1 import (
    Conversations,
    ConversationsFile,
    ConversationsPart,
    ConversationsSpec,
    CreateConversationsRequest,
    CreateConversationsResponse,
    RejectedConversations,
)
from tutti.corpus.conversationset import ConversationsBody, Lines
from tutti.ingest.paths import Paths, folder
from tutti.ingest.reading.gathering import GATHERING_VERSION, NAMED_FILES, Gathered, gather
from tutti.ingest.reading.layouts import EXPECTED
from tutti.ingest.reading.readers import InputRootError

LOGIC_VERSION = f"conversations-{GATHERING_VERSION}"
FOLDER = "ingest/conversations"
PART = re.compile(r"[a-z][a-z0-9-]{0,39}")
_NEAR = 1e-9


def split_of(spec: ConversationsSpec) -> dict[str, float]:
    """The share of each part. Raises InvalidField."""
    split = {each.name: each.share for each in spec.split}
    for name, share in split.items():
        if not PART.fullmatch(name):
            raise InvalidField("spec.split", seen=name, expected="a name of a-z 0-9 -, at most 40, a letter first")
        if not 0 < share <= 1:
            raise InvalidField("spec.split", seen=f"{name}: {share:g}", expected="a share above 0 and at most 1")
    if split and abs(sum(split.values()) - 1) > _NEAR:
        raise InvalidField("spec.split", seen=f"{sum(split.values()):g}", expected="shares that add up to 1")
    if len(split) < len(spec.split):
        raise InvalidField("spec.split", seen="the same name twice", expected="each part once")
    return split


def work_of(host: Host, paths: Paths) -> Work[Conversations]:
    """The work of gathering."""

    def run(context: TaskContext, found: Conversations) -> Outcome:
        spec, split = found.spec, split_of(found.spec)
        path = host.units.run(lambda unit: paths.find(unit, found.name))
        with tempfile.TemporaryDirectory(prefix="tutti-conversations-") as scratch:
            try:
                made = context.pool(gather, folder(path), split, spec.seed, Path(scratch))
            except InputRootError as error:
                raise WorkFailed(str(error).replace("input.path: ", "path: ", 1)) from error
            _require_the_same(spec, made)
            if not made.count:
                raise WorkFailed(_nothing(made))
            key = f"{FOLDER}/{made.bytes_digest.removeprefix('blake3:')}.jsonl"
            put_content(host.blobs, key, made.path, made.bytes_digest)
        tally = made.tally
        body = ConversationsBody(
            Lines(key, made.bytes_digest, made.bytes, made.count),
            dict(tally.layouts),
            dict(tally.rejected),
            tally.duplicates,
            made.parts,
        )
        result = publish(host.blobs, FOLDER, body.manifest(producer=version.producer("ingest")), data_bytes=made.bytes)

        def fill(unit: Unit, found: Conversations) -> None:
            found.result.CopyFrom(result)
            found.conversations, found.duplicates = made.count, tally.duplicates
            found.files.extend(
                ConversationsFile(path=path, layout=layout, conversations=count)
                for path, layout, count in tally.files[:NAMED_FILES]
            )
            found.parts.extend(ConversationsPart(name=name, conversations=n) for name, n in sorted(made.parts.items()))
            found.rejected.extend(
                RejectedConversations(reason=reason, records=count, first=tally.quotes[reason])
                for reason, count in sorted(tally.rejected.items())
            )

        return fill

    return Work(host, "conversations", Conversations, run, LOGIC_VERSION)


def _require_the_same(spec: ConversationsSpec, made: Gathered) -> None:
    if spec.input_digest not in ("", made.survey.input_digest):
        raise WorkFailed(
            f"path: the files are others than those of this run, which are {spec.input_digest}; there are "
            f"{made.survey.input_digest}; `tutti run` of its recipe reads the files of today"
        )


def _nothing(made: Gathered) -> str:
    """The reason why no conversation was read."""
    if not made.tally.rejected:
        return f"path: no file and no record; expected JSON lines, or lists in JSON, of {EXPECTED}"
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(made.tally.rejected.items()))
    first = next(iter(made.tally.quotes.values()))[0]
    return f"path: no record is a conversation ({reasons}); the first is {first}; expected {EXPECTED}"


class ConversationsApi:
    """The calls about conversations."""

    def __init__(self, work: Work[Conversations], paths: Paths) -> None:
        self._work, self._paths = work, paths

    def CreateConversations(self, request: CreateConversationsRequest, call: Call) -> CreateConversationsResponse:
        self._paths.check(request.spec.input_path)
        split_of(request.spec)
        if request.name and "." in check_name("conversations", request.name):
            raise InvalidField("name", seen=request.name, expected="a name without a dot, which is before a part")
        shown = ConversationsSpec()
        shown.CopyFrom(request.spec)
        shown.ClearField("input_path")
        made = self._work.create(
            request, shown=shown, keep=lambda unit: self._paths.keep(unit, request.name, request.spec.input_path)
        )
        return CreateConversationsResponse(conversations=made)
