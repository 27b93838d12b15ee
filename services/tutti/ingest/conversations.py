"""Conversations as work: files of prompts or demonstrations, or published ones, become lines with parts of a split.

Promises: the same conversations and split give the same lines; where they lie is told to nobody.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_content
from tutti.contracts.dedup.v1 import FindContaminatedRequest, FindNearDuplicatesRequest, HeldOutConversations
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.contracts.ingest.v1 import (
    Conversations,
    ConversationsFile,
    ConversationsPart,
    ConversationsSource,
    ConversationsSpec,
    CreateConversationsRequest,
    CreateConversationsResponse,
    FilterSpec,
    LicensedConversations,
    RejectedConversations,
    UnreadField,
)
from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.conversations.conversationset import ConversationsBody, Licensed, Lines
from tutti.corpus.conversations.layouts import EXPECTED
from tutti.corpus.conversations.licences import EXPECTED as A_LICENCE
from tutti.corpus.conversations.licences import UNKNOWN, Licences, is_name, name_of
from tutti.corpus.documents.duplicates import THRESHOLDS, How, is_threshold
from tutti.ingest.ingests import models
from tutti.ingest.paths import Paths, folder
from tutti.ingest.quality.dialogues import Sieve
from tutti.ingest.reading.gathering import (
    GATHERING_VERSION,
    NAMED_FILES,
    Arrangement,
    Gathered,
    gather,
    taken,
    without,
)
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.rpc import choice_of
from tutti.records.manifest import Kind
from tutti.staging import fetching, linefiles

LOGIC_VERSION = f"conversations-{GATHERING_VERSION}"
FOLDER = "ingest/conversations"
HELD_OUT = "held_out"
"""The reason why a conversation with a held-out prompt is rejected."""
NEAR_DUPLICATE = "near_duplicate"
"""The reason why a conversation is rejected that is nearly the same as another one."""
SEEK_SECONDS = 300.0
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


def check(spec: ConversationsSpec, blobs: Blobs) -> None:
    """Raises InvalidField."""
    split_of(spec)
    choice_of(_filter(spec), blobs)
    if not is_threshold(spec.near):
        raise InvalidField("spec.near", seen=spec.near, expected=THRESHOLDS)
    if spec.licence and not is_name(spec.licence):
        raise InvalidField("spec.licence", seen=spec.licence, expected=A_LICENCE)
    for name in spec.licences:
        if not is_name(name):
            raise InvalidField("spec.licences", seen=name, expected=A_LICENCE)


def work_of(host: Host, paths: Paths) -> Work[Conversations]:
    """The work of gathering."""

    def run(context: TaskContext, found: Conversations) -> Outcome:
        spec = found.spec
        with tempfile.TemporaryDirectory(prefix="tutti-conversations-") as folder_name:
            scratch = Path(folder_name)
            sieve = Sieve(choice_of(_filter(spec), host.blobs), models(host.blobs, spec.classifiers, scratch))
            arranged = Arrangement(split_of(spec), spec.seed, sieve, _licences(spec))
            made = _gathered(host, paths, context, found, arranged, scratch)
            if made.count and made.tally.dropped:
                path, records, first = made.tally.dropped[0]
                raise WorkFailed(
                    f"path: none of the {records:,} records of {path} is a conversation; the first is {first}; take "
                    f"the file out of the folder, or convert it; expected {EXPECTED}"
                )
            if made.count and spec.HasField("held_out"):
                made = without(made, _contaminated(host, context, made, spec.held_out), HELD_OUT)
            if made.count and spec.near:
                made = without(made, _near_duplicates(host, context, made, spec.near), NEAR_DUPLICATE)
            if not made.count:
                raise WorkFailed(_nothing(made))
            key = _stored(host.blobs, made)
        tally = made.tally
        # A set that was made without a key about licences keeps the manifest that earlier versions gave it.
        recorded = made.licences if spec.licence or spec.licences else {}
        body = ConversationsBody(
            Lines(key, made.bytes_digest, made.bytes, made.count),
            dict(tally.layouts),
            dict(tally.rejected),
            tally.duplicates,
            made.parts,
            tuple(Licensed(name, count) for name, count in sorted(recorded.items())),
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
            found.unread.extend(
                UnreadField(field=name, records=count, first=tally.unread_first[name])
                for name, count in sorted(tally.unread.items())
            )
            found.licences.extend(
                LicensedConversations(licence=name, conversations=count)
                for name, count in sorted(made.licences.items())
            )

        return fill

    return Work(host, "conversations", Conversations, run, LOGIC_VERSION)


def _licences(spec: ConversationsSpec) -> Licences:
    return Licences(name_of(spec.licence) or UNKNOWN, frozenset(map(name_of, spec.licences)))


def _filter(spec: ConversationsSpec) -> FilterSpec:
    return FilterSpec(rule_sets=spec.rule_sets, classifiers=spec.classifiers)


def _gathered(
    host: Host, paths: Paths, context: TaskContext, found: Conversations, arranged: Arrangement, scratch: Path
) -> Gathered:
    """Raises WorkFailed."""
    spec = found.spec
    if spec.HasField("demonstrations"):
        source = spec.demonstrations
        manifest = fetching.manifest(host.blobs, source.manifest_key, source.content_digest, Kind.CONVERSATIONS)
        every = linefiles.read(host.blobs, manifest, Conversation)
        return context.pool(taken, every, arranged, scratch)
    path = host.units.run(lambda unit: paths.find(unit, found.name))
    try:
        made = context.pool(gather, folder(path), arranged, scratch, paths.roots)
    except InputRootError as error:
        raise WorkFailed(str(error).replace("input.path: ", "path: ", 1)) from error
    _require_the_same(spec, made)
    return made


def _stored(blobs: Blobs, made: Gathered) -> str:
    key = f"{FOLDER}/{made.bytes_digest.removeprefix('blake3:')}.jsonl"
    put_content(blobs, key, made.path, made.bytes_digest)
    return key


def _contaminated(host: Host, context: TaskContext, made: Gathered, held_out: ConversationsSource) -> Mapping[str, str]:
    """Those that contain a held-out prompt, as dedup finds them in documents, each with its quote.

    Raises WorkFailed.
    """
    context.check()
    request = FindContaminatedRequest(
        blob=_stored(host.blobs, made),
        held_out=HeldOutConversations(
            manifest_key=held_out.manifest_key, content_digest=held_out.content_digest, part=held_out.part
        ),
    )
    try:
        found = DedupServiceStub(host.channel("dedup")).FindContaminated(request, timeout=SEEK_SECONDS).digests
    except Refused as problem:
        raise WorkFailed(problem.message) from problem
    return {digest: digest for digest in found}


def _near_duplicates(host: Host, context: TaskContext, made: Gathered, near: float) -> Mapping[str, str]:
    """Those that are nearly the same as another one, as dedup finds them among documents, each with its quote.

    Raises WorkFailed.
    """
    context.check()
    request = FindNearDuplicatesRequest(blob=_stored(host.blobs, made), near=near)
    try:
        found = DedupServiceStub(host.channel("dedup")).FindNearDuplicates(request, timeout=SEEK_SECONDS).duplicates
    except Refused as problem:
        raise WorkFailed(problem.message) from problem
    return {each.digest: f"{each.digest}: {How.NEAR.detail(each.similarity, each.of)}" for each in found}


def _require_the_same(spec: ConversationsSpec, made: Gathered) -> None:
    if spec.input_digest not in ("", made.survey.input_digest):
        raise WorkFailed(
            f"path: the files are others than those of this run, which are {spec.input_digest}; there are "
            f"{made.survey.input_digest}; `tutti run` of its recipe reads the files of today"
        )


def _nothing(made: Gathered) -> str:
    """The reason why no conversation was read."""
    if not made.tally.rejected and not made.tally.layouts:
        return f"path: no file and no record; expected JSON lines, lists in JSON, or Parquet, of {EXPECTED}"
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(made.tally.rejected.items()))
    first = next(iter(made.tally.quotes.values()))[0]
    if made.tally.layouts:
        return f"every conversation was rejected ({reasons}); change the filters of the stage"
    return f"path: no record is a conversation ({reasons}); the first is {first}; expected {EXPECTED}"


class ConversationsApi:
    """The calls about conversations."""

    def __init__(self, work: Work[Conversations], paths: Paths) -> None:
        self._work, self._paths = work, paths

    def CreateConversations(self, request: CreateConversationsRequest, call: Call) -> CreateConversationsResponse:
        if not request.spec.HasField("demonstrations"):
            self._paths.check(request.spec.input_path, call.principal)
        elif request.spec.input_path:
            expected = "nothing beside demonstrations"
            raise InvalidField("spec.input_path", seen=request.spec.input_path, expected=expected)
        if request.name and "." in check_name("conversations", request.name):
            raise InvalidField("name", seen=request.name, expected="a name without a dot, which is before a part")
        shown = ConversationsSpec()
        shown.CopyFrom(request.spec)
        shown.ClearField("input_path")
        made = self._work.create(
            request,
            check=lambda: check(request.spec, self._work.host.blobs),
            shown=shown,
            keep=lambda unit: self._paths.keep(unit, request.name, request.spec.input_path),
        )
        return CreateConversationsResponse(conversations=made)
