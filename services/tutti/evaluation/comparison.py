"""Comparisons as work: the answers of a candidate judged against those of a baseline.

Promises: the result follows from the contents of both samples and from who judges: a simulated crowd and its seed, or a
set of judgements; every judgement is kept.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.evaluation.v1 import ComparedSample, Comparison, ComparisonSpec, WinRate
from tutti.contracts.sampling.v1.stubs import SamplingServiceStub
from tutti.corpus.conversations.conversations import Answer
from tutti.corpus.conversations.conversationset import Lines
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.evaluation.comparing import DIGITS, Compared, NotComparable, Pair, compare, differing, judged, paired
from tutti.evaluation.measuring import Folders, Measured, measure
from tutti.judgements.crowds import Crowd, InvalidCrowd
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.staging import fetching, linefiles
from tutti.staging.checkpoints import Checkpoints

LOGIC_VERSION = "comparison-4"
MOST_ANNOTATORS, MOST_CROWD_BYTES, MOST_SEED = 1000, 64 << 10, 2**53
FOLDER = "evaluation/judgements"
MOST_DIFFERING = 100


def check(spec: ComparisonSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    for side in ("baseline", "candidate"):
        name = getattr(spec, side).name
        if not name.startswith("samples/"):
            raise InvalidField(f"spec.{side}.name", seen=name or "nothing", expected="the name of a sample, samples/…")
    if spec.HasField("reward") and not spec.reward.checkpoint.startswith("checkpoints/"):
        seen = spec.reward.checkpoint or "nothing"
        raise InvalidField("spec.reward.checkpoint", seen=seen, expected="the name of a checkpoint, checkpoints/…")
    if spec.HasField("judged"):
        _check_judged(spec)
        return
    for field, holds, expected in (
        ("annotators", 2 <= spec.annotators <= MOST_ANNOTATORS, f"2 to {MOST_ANNOTATORS}"),
        ("overlap", 1 <= spec.overlap <= spec.annotators, f"1 to the number of annotators ({spec.annotators})"),
        ("seed", spec.seed < MOST_SEED, "less than 2^53"),
    ):
        if not holds:
            raise InvalidField(f"spec.{field}", seen=getattr(spec, field), expected=expected)
    size = len(spec.crowd.encode())
    if size > MOST_CROWD_BYTES:
        raise InvalidField("spec.crowd", seen=f"{size} bytes", expected=f"at most {MOST_CROWD_BYTES} bytes of YAML")
    _crowd(spec.crowd)


def _check_judged(spec: ComparisonSpec) -> None:
    if not spec.judged.campaign.startswith("campaigns/"):
        seen = spec.judged.campaign or "nothing"
        raise InvalidField("spec.judged.campaign", seen=seen, expected="the name of a campaign, campaigns/…")
    for field in ("crowd", "annotators", "overlap", "seed"):
        if value := getattr(spec, field):
            raise InvalidField(f"spec.{field}", seen=str(value)[:100], expected="nothing: spec.judged has judgements")


def _crowd(text: str) -> Crowd:
    try:
        return Crowd.read(text)
    except InvalidCrowd as error:
        raise InvalidField("spec.crowd", seen=text[:100] or "nothing", expected=f"a crowd ({error})") from error


def work(host: Host, made: Callable[[str], None] = lambda name: None) -> Work[Comparison]:
    """The work; `made` is called with the name of a comparison that is done."""
    checkpoints = Checkpoints(host)
    sampling = SamplingServiceStub(host.channel("sampling"))

    def measured(context: TaskContext, spec: ComparisonSpec, pairs: Sequence[Pair]) -> Measured | None:
        """The figures of the reward model, if there is one. Raises WorkFailed."""
        if not spec.HasField("reward"):
            return None
        with tempfile.TemporaryDirectory(prefix="tutti-evaluation-") as scratch:
            names = [_checkpoint(sampling, each) for each in (spec.baseline, spec.candidate)]
            found = [
                checkpoints.fetch(name, Path(scratch, role))
                for role, name in zip(
                    ("baseline", "candidate", "reward"), (*names, spec.reward.checkpoint), strict=True
                )
            ]
            reward = found[-1]
            for each in found[:-1]:
                if each.tokenizer.version != reward.tokenizer.version:
                    raise WorkFailed(
                        f"{each.name} has another tokenizer than the reward model {reward.name}; take a reward model "
                        "that goes back to the same tokenizer"
                    )
            context.check()
            folders = Folders(*(each.folder for each in found))
            return context.pool(measure, folders, reward.tokenizer, pairs)

    def run(context: TaskContext, comparison: Comparison) -> Outcome:
        spec = comparison.spec
        try:
            pairs = paired(answers_of(host.blobs, spec.baseline), answers_of(host.blobs, spec.candidate))
        except NotComparable as error:
            raise WorkFailed(str(error)) from error
        context.check()
        found, who = _judged(host.blobs, spec, pairs) if spec.HasField("judged") else _simulated(spec, pairs)
        context.check()
        models = measured(context, spec, pairs)
        lines = linefiles.write(host.blobs, FOLDER, found.judgements)
        body = _body(spec, found, who, lines, _measures(spec, models, pairs, found))
        manifest = Manifest(Kind.COMPARISON, body, (), version.producer("evaluation"))
        result = publish(host.blobs, "evaluation", manifest, data_bytes=lines.bytes)

        def fill(unit: Unit, done: Comparison) -> None:
            unit.on_commit(partial(made, done.name))
            done.result.CopyFrom(result)
            done.pairs, done.judgements, done.better = found.pairs, len(found.judgements), found.better
            wins = found.wins
            done.wins.CopyFrom(WinRate(mean=wins.mean, low=wins.low, high=wins.high, clusters=wins.clusters))
            done.utilities.extend(found.utilities or ())
            done.simulated, done.unjudged = bool(who["simulated"]), found.unjudged
            done.words.extend(found.words)
            if models is not None:
                done.promised, done.preferred = models.promised, models.preferred
                done.divergence = models.divergence

        return fill

    return Work(host, "comparisons", Comparison, run, LOGIC_VERSION)


def _simulated(spec: ComparisonSpec, pairs: Sequence[Pair]) -> tuple[Compared, dict[str, JsonValue]]:
    """The comparison by a simulated crowd, and who judged as the manifest says it."""
    found = compare(pairs, _crowd(spec.crowd), annotators=spec.annotators, overlap=spec.overlap, seed=spec.seed)
    assert found.utilities is not None
    return found, {
        "crowd": spec.crowd,
        "annotators": spec.annotators,
        "overlap": spec.overlap,
        "seed": spec.seed,
        "simulated": True,
        "better": round(found.better, DIGITS),
        "utilities": [round(value, DIGITS) for value in found.utilities],
    }


def _judged(blobs: Blobs, spec: ComparisonSpec, pairs: Sequence[Pair]) -> tuple[Compared, dict[str, JsonValue]]:
    """The same by the judgements of a campaign. Raises WorkFailed."""
    of = spec.judged
    manifest = fetching.manifest(blobs, of.manifest_key, of.content_digest, Kind.JUDGEMENTS)
    fields = Fields(manifest.body, path="body", error=InvalidManifest)
    axes = [each.text("name") for each in fields.objects("axes")]
    axis = spec.axis or axes[0]
    if axis not in axes:
        raise WorkFailed(f"the axis {axis!r} was not judged; {of.campaign} has {', '.join(axes)}")
    lines, said = linefiles.read(blobs, manifest, PairLine, "pairs"), linefiles.read(blobs, manifest, JudgementLine)
    try:
        found = judged(pairs, lines, said, axis)
    except NotComparable as error:
        raise WorkFailed(f"{of.campaign}: {error}") from error
    return found, {
        "judged": of.content_digest,
        "axis": axis,
        "simulated": bool(fields.value("simulated")),
        "unjudged": found.unjudged,
    }


def answers_of(blobs: Blobs, sample: ComparedSample) -> list[Answer]:
    """The answers of a sample. Raises WorkFailed."""
    manifest = fetching.manifest(blobs, sample.manifest_key, sample.content_digest, Kind.SAMPLE)
    if "lines" not in manifest.body:
        raise WorkFailed(f"{sample.name} continues texts; expected answers to conversations (a sample with prompts)")
    return linefiles.read(blobs, manifest, Answer)


def _checkpoint(sampling: SamplingServiceStub, sample: ComparedSample) -> str:
    """The checkpoint that wrote the answers of a sample. Raises WorkFailed."""
    try:
        return sampling.GetSample(GetRequest(name=sample.name)).spec.checkpoint
    except NotFound as error:
        raise WorkFailed(f"{error.message}; run the recipe again") from error


def _body(
    spec: ComparisonSpec,
    found: Compared,
    who: Mapping[str, JsonValue],
    lines: Lines,
    measures: Mapping[str, JsonValue],
) -> Mapping[str, JsonValue]:
    return {
        "baseline": spec.baseline.content_digest,
        "candidate": spec.candidate.content_digest,
        **who,
        "pairs": found.pairs,
        "wins": [round(value, DIGITS) for value in (found.wins.mean, found.wins.low, found.wins.high)],
        "words": [round(value, DIGITS) for value in found.words],
        "lines": lines.to_json(),
        **measures,
    }


def _measures(
    spec: ComparisonSpec, models: Measured | None, pairs: Sequence[Pair], found: Compared
) -> Mapping[str, JsonValue]:
    """The part of the body that a reward model decides."""
    if models is None:
        return {}
    apart = differing(pairs, models.chances, found.judgements, MOST_DIFFERING)
    return {
        "reward": spec.reward.state_digest,
        "preferred": round(models.preferred, DIGITS),
        "promised": round(models.promised, DIGITS),
        "divergence": round(models.divergence, DIGITS),
        "differing": [each.to_json() for each in apart],
    }
