"""The work behind preferences: read a set of judgements, fit it, publish its lines."""

from tutti.annotation import fitting
from tutti.annotation.fitting import FITS, RELIABILITY, Fitted
from tutti.annotation.sets import LINES
from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work import linefiles, staging
from tutti.chassis.work.work import Outcome, Work, publish
from tutti.contracts.annotation.v1 import Annotator, Estimate, Preferences, PreferencesSpec
from tutti.corpus.judgementset import JudgementLine, PairLine
from tutti.corpus.manifest import Kind, Manifest
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Fields


def check(spec: PreferencesSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if not spec.campaign.startswith("campaigns/"):
        raise InvalidField("spec.campaign", seen=spec.campaign or "nothing", expected="a name campaigns/ID")
    if not spec.manifest_key or not spec.content_digest:
        raise InvalidField("spec.manifest_key", seen="nothing", expected="the key and digest of published judgements")
    if spec.fit not in ("", *FITS):
        raise InvalidField("spec.fit", seen=spec.fit, expected=" or ".join(FITS))


def preferring(host: Host) -> Work[Preferences]:
    producer = version.producer("annotation")

    def run(context: TaskContext, preferences: Preferences) -> Outcome:
        spec = preferences.spec
        judged = staging.manifest(host.blobs, spec.manifest_key, spec.content_digest, Kind.JUDGEMENTS)
        pairs = linefiles.read(host.blobs, judged, PairLine, "pairs")
        judgements = linefiles.read(host.blobs, judged, JudgementLine)
        fields = Fields(judged.body, path="body", error=InvalidManifest)
        axes = [each.text("name") for each in fields.objects("axes")]
        axis = spec.axis or axes[0]
        if axis not in axes:
            raise WorkFailed(f"the axis {axis!r} was not judged; the campaign has {', '.join(axes)}")
        if not judgements:
            raise WorkFailed(f"{spec.campaign} has no judgement that can be fitted; run another campaign")
        context.check()
        found = context.pool(fitting.fitted, pairs, judgements, axis, spec.fit or RELIABILITY)
        manifest = _manifest(host, spec, axis, judged, found, producer)
        result = publish(host.blobs, "annotation", manifest, data_bytes=0)
        simulated = bool(fields.value("simulated"))

        def fill(unit: Unit, preferences: Preferences) -> None:
            preferences.result.CopyFrom(result)
            preferences.pairs, preferences.judgements = len(found.preferences), found.judgements
            preferences.annotators, preferences.simulated = len(found.annotators), simulated
            preferences.identified = not found.unidentified

        return fill

    return Work(host, "preferences", Preferences, run, fitting.LOGIC_VERSION)


def _manifest(host: Host, spec: PreferencesSpec, axis: str, judged: Manifest, found: Fitted, producer: str) -> Manifest:
    body: dict[str, JsonValue] = {
        "annotators": [each.to_json() for each in found.annotators],
        "axis": axis,
        "converged": found.converged,
        "excluded": judged.body["excluded"],
        "fit": spec.fit or RELIABILITY,
        "judgement_set": judged.content_digest,
        "judgements": found.judgements,
        "lines": linefiles.write(host.blobs, LINES, found.preferences).to_json(),
        "logic_version": fitting.LOGIC_VERSION,
        "simulated": judged.body["simulated"],
        "unidentified": list(found.unidentified),
    }
    return Manifest(Kind.PREFERENCES, body, (), producer)


def estimates(blobs: Blobs, preferences: Preferences) -> dict[str, Annotator]:
    """The estimates of a fit by the annotators' keys; none where the result is gone."""
    result = preferences.result
    try:
        manifest = staging.manifest(blobs, result.manifest_key, result.content_digest, Kind.PREFERENCES)
    except WorkFailed:
        return {}
    fields = Fields(manifest.body, path="body", error=InvalidManifest)
    return {each.text("annotator"): _estimated(each) for each in fields.objects("annotators")}


def _estimated(fields: Fields) -> Annotator:
    def estimate(key: str) -> Estimate:
        found = fields.value(key)
        if not isinstance(found, list) or len(found) != 2:
            raise InvalidManifest(f"{key}: expected an estimate and its error")
        return Estimate(value=found[0], error=found[1])

    return Annotator(
        sharpness=estimate("sharpness"),
        position=estimate("position"),
        length=estimate("length"),
        weight=fields.number("weight"),
    )
