"""Comparisons as work: the answers of a candidate judged against those of a baseline.

Promises: the result follows from the contents of both samples, the crowd and the seed; every judgement is kept.
"""

from collections.abc import Mapping

from tutti.backbone import Blobs
from tutti.chassis import linefiles, staging, version
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish
from tutti.contracts.evaluation.v1 import ComparedSample, Comparison, ComparisonSpec, WinRate
from tutti.corpus.canonical import JsonValue
from tutti.corpus.conversations import Answer
from tutti.corpus.conversationset import Lines
from tutti.corpus.manifest import Kind, Manifest
from tutti.evaluation.comparing import Compared, NotComparable, compare, paired
from tutti.judgements.crowds import Crowd, InvalidCrowd

LOGIC_VERSION = "comparison-1"
MOST_ANNOTATORS, MOST_CROWD_BYTES, MOST_SEED = 1000, 64 << 10, 2**53
FOLDER = "evaluation/judgements"
DIGITS = 6


def check(spec: ComparisonSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    for side in ("baseline", "candidate"):
        name = getattr(spec, side).name
        if not name.startswith("samples/"):
            raise InvalidField(f"spec.{side}.name", seen=name or "nothing", expected="the name of a sample, samples/…")
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


def _crowd(text: str) -> Crowd:
    try:
        return Crowd.read(text)
    except InvalidCrowd as error:
        raise InvalidField("spec.crowd", seen=text[:100] or "nothing", expected=f"a crowd ({error})") from error


def work(host: Host) -> Work[Comparison]:
    def run(context: TaskContext, comparison: Comparison) -> Outcome:
        spec = comparison.spec
        try:
            pairs = paired(_answers(host.blobs, spec.baseline), _answers(host.blobs, spec.candidate))
        except NotComparable as error:
            raise WorkFailed(str(error)) from error
        context.check()
        crowd = _crowd(spec.crowd)
        found = compare(pairs, crowd, annotators=spec.annotators, overlap=spec.overlap, seed=spec.seed)
        context.check()
        lines = linefiles.write(host.blobs, FOLDER, found.judgements)
        manifest = Manifest(Kind.COMPARISON, _body(spec, found, lines), (), version.producer("evaluation"))
        result = publish(host.blobs, "evaluation", manifest, data_bytes=lines.bytes)

        def fill(unit: Unit, done: Comparison) -> None:
            done.result.CopyFrom(result)
            done.pairs, done.judgements, done.better = found.pairs, len(found.judgements), found.better
            done.wins.CopyFrom(WinRate(mean=found.wins.mean, low=found.wins.low, high=found.wins.high))
            done.utilities.extend(found.utilities)
            done.words.extend(found.words)

        return fill

    return Work(host, "comparisons", Comparison, run, LOGIC_VERSION)


def _answers(blobs: Blobs, sample: ComparedSample) -> list[Answer]:
    """The answers of a sample. Raises WorkFailed."""
    manifest = staging.manifest(blobs, sample.manifest_key, sample.content_digest, Kind.SAMPLE)
    if "lines" not in manifest.body:
        raise WorkFailed(f"{sample.name} continues texts; expected answers to conversations (a sample with prompts)")
    return linefiles.read(blobs, manifest, Answer)


def _body(spec: ComparisonSpec, found: Compared, lines: Lines) -> Mapping[str, JsonValue]:
    return {
        "baseline": spec.baseline.content_digest,
        "candidate": spec.candidate.content_digest,
        "crowd": spec.crowd,
        "annotators": spec.annotators,
        "overlap": spec.overlap,
        "seed": spec.seed,
        "simulated": True,
        "pairs": found.pairs,
        "wins": [round(value, DIGITS) for value in (found.wins.mean, found.wins.low, found.wins.high)],
        "better": round(found.better, DIGITS),
        "utilities": [round(value, DIGITS) for value in found.utilities],
        "words": [round(value, DIGITS) for value in found.words],
        "lines": lines.to_json(),
    }
