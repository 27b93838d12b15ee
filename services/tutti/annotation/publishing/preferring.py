"""The work behind preferences: read sets of judgements, fit them, publish their lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tutti.annotation.publishing import facts, fitting, weighing
from tutti.annotation.publishing.fitting import FITS, RELIABILITY, Fitted
from tutti.annotation.publishing.merging import Lines, key_of, merged, whose
from tutti.annotation.publishing.sets import LINES
from tutti.annotation.publishing.weighing import Weight
from tutti.annotation.tables import Tables
from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish
from tutti.contracts.annotation.v1 import Annotator, Estimate, JudgedCampaign, Preferences, PreferencesSpec
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.staging import fetching, linefiles

MOST_CAMPAIGNS = 16
NO_WEIGHT = "NO_WEIGHT"
"""The reason by which a fit counts the judgements that are not in it since their annotator has the weight 0."""


@dataclass(frozen=True)
class _Judged:
    """The published judgements of a campaign. `axes` are in its order, `excluded` are counts by reason, `weights` those
    below 1 by the keys of annotators.
    """

    manifest: Manifest
    lines: Lines
    axes: Sequence[str]
    simulated: bool
    imported: bool
    excluded: dict[str, int]
    weights: dict[str, Weight]


@dataclass(frozen=True)
class Estimated:
    """The estimates of a fit by the keys of annotators. `unidentified` says what the judgements cannot determine."""

    annotators: Mapping[str, Annotator]
    unidentified: Sequence[str]


def check(spec: PreferencesSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    for place, each in enumerate(campaigns_of(spec)):
        field = f"spec.others[{place - 1}]" if place else "spec"
        if not each.campaign.startswith("campaigns/"):
            raise InvalidField(f"{field}.campaign", seen=each.campaign or "nothing", expected="a name campaigns/ID")
        if not each.manifest_key or not each.content_digest:
            expected = "the key and digest of published judgements"
            raise InvalidField(f"{field}.manifest_key", seen="nothing", expected=expected)
    names = [each.campaign for each in campaigns_of(spec)]
    if len(names) > MOST_CAMPAIGNS or len(set(names)) != len(names):
        seen = ", ".join(names)[:200]
        raise InvalidField("spec.others", seen=seen, expected=f"at most {MOST_CAMPAIGNS} campaigns, each once")
    if spec.fit not in ("", *FITS):
        raise InvalidField("spec.fit", seen=spec.fit, expected=" or ".join(FITS))


def campaigns_of(spec: PreferencesSpec) -> list[JudgedCampaign]:
    """Return the campaigns whose judgements are fitted, the first one first."""
    first = JudgedCampaign(campaign=spec.campaign, manifest_key=spec.manifest_key, content_digest=spec.content_digest)
    return [first, *spec.others]


def fits(preferences: Preferences, campaign: str) -> bool:
    """Return whether the judgements of a campaign are among those that were fitted."""
    return any(each.campaign == campaign for each in campaigns_of(preferences.spec))


def preferring(host: Host, tables: Tables) -> Work[Preferences]:
    """The work of fitting; preferences exist for those for whom all their campaigns do."""
    producer = version.producer("annotation")

    def run(context: TaskContext, preferences: Preferences) -> Outcome:
        spec = preferences.spec
        sets = [_read(host.blobs, each) for each in campaigns_of(spec)]
        axis = spec.axis or sets[0].axes[0]
        for campaign, each in zip(campaigns_of(spec), sets, strict=True):
            if axis not in each.axes:
                raise WorkFailed(f"the axis {axis!r} was not judged; {campaign.campaign} has {', '.join(each.axes)}")
        simulated = sets[0].simulated
        if any(each.simulated != simulated for each in sets):
            raise WorkFailed("people judged in one campaign and simulated annotators in another; fit them apart")
        every = merged([each.lines for each in sets])
        weights = {
            key_of(key, place): weight for place, each in enumerate(sets) for key, weight in each.weights.items()
        }
        values = {key: weight.value for key, weight in weights.items()}
        pairs, judgements = weighing.counted(every, values)
        if not judgements:
            raise WorkFailed(f"{spec.campaign} has no judgement that can be fitted; run another campaign")
        context.check()
        found = context.pool(fitting.fitted, pairs, judgements, axis, spec.fit or RELIABILITY, values)
        excluded = Counter[str]()
        for each in sets:
            excluded.update(each.excluded)
        if no_weight := len(every[1]) - len(judgements):
            excluded[NO_WEIGHT] = no_weight
        manifest = _manifest(host, spec, axis, sets, found, producer, excluded=excluded, weights=weights)
        result = publish(host.blobs, "annotation", manifest, data_bytes=0)

        def fill(unit: Unit, preferences: Preferences) -> None:
            preferences.result.CopyFrom(result)
            tables.hold(unit, result.manifest_key, [each.campaign for each in campaigns_of(spec)])
            preferences.pairs, preferences.judgements = len(found.preferences), found.judgements
            preferences.annotators, preferences.simulated = len(found.annotators), simulated
            preferences.imported = any(each.imported for each in sets)
            preferences.identified = not found.unidentified

        return fill

    def shown(unit: Unit, preferences: Preferences, principal: Principal) -> bool:
        return tables.all_shown(unit, [each.campaign for each in campaigns_of(preferences.spec)], principal)

    def done(unit: Unit, preferences: Preferences) -> None:
        sets = [each.content_digest for each in campaigns_of(preferences.spec)]
        unit.fact(preferences.name, facts.published(preferences, sets))

    return Work(host, "preferences", Preferences, run, fitting.LOGIC_VERSION, shown=shown, done=done)


def _read(blobs: Blobs, judged: JudgedCampaign) -> _Judged:
    """Raises WorkFailed."""
    manifest = fetching.manifest(blobs, judged.manifest_key, judged.content_digest, Kind.JUDGEMENTS)
    fields = Fields(manifest.body, path="body", error=InvalidManifest)
    excluded = fields.value("excluded")
    counts = fields.nested("excluded")
    return _Judged(
        manifest,
        (linefiles.read(blobs, manifest, PairLine, "pairs"), linefiles.read(blobs, manifest, JudgementLine)),
        [each.text("name") for each in fields.objects("axes")],
        bool(fields.value("simulated")),
        fields.has("imported"),
        {str(reason): counts.count(str(reason)) for reason in excluded} if isinstance(excluded, Mapping) else {},
        {
            each.text("annotator"): Weight(each.number("weight"), each.text("reason"))
            for each in fields.objects("weights", missing=())
        },
    )


def _manifest(
    host: Host,
    spec: PreferencesSpec,
    axis: str,
    sets: Sequence[_Judged],
    found: Fitted,
    producer: str,
    *,
    excluded: Mapping[str, int],
    weights: Mapping[str, Weight],
) -> Manifest:
    first, *others = [each.manifest.content_digest for each in sets]
    body: dict[str, JsonValue] = {
        "annotators": [each.to_json() for each in found.annotators],
        "axis": axis,
        "converged": found.converged,
        "excluded": dict(excluded),
        "fit": spec.fit or RELIABILITY,
        "judgement_set": first,
        "judgements": found.judgements,
        "lines": linefiles.write(host.blobs, LINES, found.preferences).to_json(),
        "logic_version": fitting.LOGIC_VERSION,
        "simulated": sets[0].simulated,
        "unidentified": list(found.unidentified),
    }
    if any(each.imported for each in sets):
        body["imported"] = True
    if others:
        body["other_judgement_sets"] = list(others)
    if weights:
        body["weights"] = weighing.to_json(weights)
    return Manifest(Kind.PREFERENCES, body, (), producer)


def estimates(blobs: Blobs, preferences: Preferences, campaign: str) -> Estimated | None:
    """The estimates of a fit for a campaign's annotators; None where the result is gone."""
    result = preferences.result
    place = [each.campaign for each in campaigns_of(preferences.spec)].index(campaign)
    try:
        manifest = fetching.manifest(blobs, result.manifest_key, result.content_digest, Kind.PREFERENCES)
    except WorkFailed:
        return None
    found = estimated(manifest.body)
    own = {whose(key)[0]: each for key, each in found.annotators.items() if whose(key)[1] == place}
    return replace(found, annotators=own)


def estimated(body: Mapping[str, JsonValue]) -> Estimated:
    """Read the estimates of a fit. Raises InvalidManifest."""
    fields = Fields(body, path="body", error=InvalidManifest)
    found = {each.text("annotator"): _estimated(each) for each in fields.objects("annotators")}
    return Estimated(found, fields.texts("unidentified"))


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
        format=estimate("format") if fields.has("format") else None,
        weight=fields.number("weight"),
    )
