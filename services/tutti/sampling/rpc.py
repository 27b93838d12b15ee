"""The calls that sampling answers."""

import re
from collections.abc import Iterator
from itertools import islice

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work, require_done
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    Continuation,
    CreateExportRequest,
    CreateExportResponse,
    CreateSampleRequest,
    CreateSampleResponse,
    Export,
    Message,
    ReadExportRequest,
    ReadExportResponse,
    ReadSampleRequest,
    ReadSampleResponse,
    Sample,
    SampleSpec,
    Stop,
)
from tutti.corpus.conversations.conversations import Answer, from_lines
from tutti.corpus.conversations.conversationset import Lines
from tutti.inference.errors import InvalidSampling
from tutti.inference.sampling import Sampling
from tutti.records.canonical import is_digest
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest
from tutti.sampling.dtypes import DTYPES
from tutti.sampling.prompts import Prompts
from tutti.sampling.results import File, answer_lines, continuations
from tutti.staging import fetching

MAX_PROMPTS = 64
MAX_PROMPT_BYTES = 64 << 10
MAX_TOKENS = 4096
MAX_EACH = 64
PAGE = 1000
_CHECKPOINT = re.compile(r"checkpoints/[^/]+/\d+/\d+")


def sampling_of(spec: SampleSpec) -> Sampling:
    """The sampling parameters of a spec. Raises InvalidField."""
    try:
        return Sampling(
            temperature=spec.temperature if spec.HasField("temperature") else 1.0,
            top_p=spec.top_p if spec.HasField("top_p") else 1.0,
            top_k=spec.top_k,
            seed=spec.seed,
        )
    except InvalidSampling as error:
        raise InvalidField(f"spec.{error.field}", seen=error.seen, expected=error.expected) from error


def check(spec: SampleSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    check_checkpoint(spec.checkpoint)
    size = sum(len(prompt.encode()) for prompt in spec.prompts)
    if spec.HasField("prompt_set"):
        _check_set(spec)
    else:
        _require(
            ("each", spec.each == 0, spec.each, "nothing: only a set of prompts is answered several times"),
            ("prompts", 0 < len(spec.prompts) <= MAX_PROMPTS, len(spec.prompts), f"1 to {MAX_PROMPTS} prompts"),
            ("prompts", size <= MAX_PROMPT_BYTES, size, f"at most {MAX_PROMPT_BYTES} bytes of text together"),
        )
    _require(("tokens", 0 < spec.tokens <= MAX_TOKENS, spec.tokens, f"1 to {MAX_TOKENS} tokens"))
    sampling_of(spec)


def _check_set(spec: SampleSpec) -> None:
    given = spec.prompt_set
    _require(
        ("prompts", not spec.prompts, len(spec.prompts), "no prompts beside a set of them"),
        ("each", spec.each <= MAX_EACH, spec.each, f"1 to {MAX_EACH} answers to a prompt"),
        ("prompt_set.manifest_key", bool(given.manifest_key), "nothing", "the key of a manifest of conversations"),
        ("prompt_set.content_digest", is_digest(given.content_digest), given.content_digest, "a digest, blake3:..."),
    )


def _require(*rules: tuple[str, bool, object, str]) -> None:
    """Raises InvalidField for the first rule that does not hold: field, whether it holds, seen, expected."""
    for field, holds, seen, expected in rules:
        if not holds:
            raise InvalidField(f"spec.{field}", seen=seen, expected=expected)


def check_checkpoint(name: str) -> None:
    """Raises InvalidField for what names no checkpoint."""
    if not _CHECKPOINT.fullmatch(name):
        raise InvalidField("spec.checkpoint", seen=name or "nothing", expected="a name checkpoints/JOB/LINE/STEP")


class SamplingApi:
    def __init__(self, host: Host, samples: Work[Sample], exports: Work[Export], prompts: Prompts) -> None:
        self._blobs, self._samples, self._exports, self._prompts = host.blobs, samples, exports, prompts

    def CreateSample(self, request: CreateSampleRequest, call: Call) -> CreateSampleResponse:
        check(request.spec)
        shown = SampleSpec()
        shown.CopyFrom(request.spec)
        shown.ClearField("prompts")
        made = self._samples.create(
            request, shown=shown, keep=lambda unit: self._prompts.keep(unit, request.name, request.spec.prompts)
        )
        return CreateSampleResponse(sample=made)

    def ReadSample(self, request: ReadSampleRequest, call: Call) -> ReadSampleResponse:
        sample = self._samples.get(GetRequest(name=request.name), call.principal)
        require_done(sample)
        try:
            result = sample.result
            manifest = fetching.manifest(self._blobs, result.manifest_key, result.content_digest, Kind.SAMPLE)
        except WorkFailed as error:
            raise Refused("RESULT_GONE", f"{request.name}: {error.reason.partition(';')[0]}; sample again") from error
        lines = answer_lines(manifest)
        every = list(islice(_continued(manifest) if lines is None else self._answers(request, lines), *_page(request)))
        page, more = every[: _size(request)], len(every) > _size(request)
        token = str(_start(request) + len(page)) if more else ""
        return ReadSampleResponse(continuations=page, next_page_token=token)

    def _answers(self, request: ReadSampleRequest, lines: Lines) -> Iterator[Continuation]:
        """Raises Refused."""
        try:
            data = fetching.small(self._blobs, lines.blob)
            for each in from_lines(Answer, data):
                yield Continuation(
                    text=each.text,
                    tokens=len(each.tokens),
                    stop=_stop(each.stop),
                    number=each.number,
                    messages=[Message(role=str(one.role), content=one.content) for one in each.prompt],
                )
        except (WorkFailed, CorpusError) as error:
            raise Refused("RESULT_GONE", f"{request.name}: {error}; sample again") from error

    def CreateExport(self, request: CreateExportRequest, call: Call) -> CreateExportResponse:
        required(request, "spec.format")
        check_checkpoint(request.spec.checkpoint)
        if request.spec.format != FORMAT_HUGGING_FACE:
            raise InvalidField("spec.format", seen=request.spec.format, expected="FORMAT_HUGGING_FACE")
        if request.spec.dtype not in ("", *DTYPES):
            raise InvalidField("spec.dtype", seen=request.spec.dtype, expected=f"one of {', '.join(DTYPES)}")
        return CreateExportResponse(export=self._exports.create(request))

    def ReadExport(self, request: ReadExportRequest, call: Call) -> ReadExportResponse:
        export = self._exports.get(GetRequest(name=request.name), call.principal)
        require_done(export)
        found = next((each for each in export.files if each.name == request.file), None)
        if found is None:
            raise NotFound(f"{request.name}/{request.file}")
        key = File(found.name, found.bytes, found.bytes_digest).key
        gone = Refused("RESULT_GONE", f"{request.name}: the blob {key} is gone; export again")
        return ReadExportResponse(data=fetching.piece(self._blobs, key, found.bytes, request.offset, gone=gone))


def _continued(manifest: Manifest) -> Iterator[Continuation]:
    for each in continuations(manifest):
        yield Continuation(prompt=each.prompt, text=each.text, tokens=each.tokens, stop=_stop(each.stop))


def _stop(name: str) -> "Stop.ValueType":
    return Stop.Value(f"STOP_{name.upper()}")


def _size(request: ReadSampleRequest) -> int:
    return min(request.page_size or PAGE, PAGE)


def _start(request: ReadSampleRequest) -> int:
    """Raises InvalidField."""
    if not (request.page_token or "0").isdigit():
        raise InvalidField("page_token", seen=request.page_token, expected="the next_page_token of an earlier answer")
    return int(request.page_token or 0)


def _page(request: ReadSampleRequest) -> tuple[int, int]:
    """With one more than the page, which shows that there is another."""
    return _start(request), _start(request) + _size(request) + 1
