"""The life of a campaign: its pairs are made, it is open until it has its judgements, its judgements are published.

Promises: whatever somebody changes is in the audit trail; a round follows from the judgements of the rounds before it;
a campaign ends at its deadline with what it has, and says so; people can undo a last judgement before it is published;
what was published follows from the set of judgements and their weights alone.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from tutti.annotation.campaigns import rounds
from tutti.annotation.campaigns.collecting import UNDER_WAY, collected, excluded
from tutti.annotation.campaigns.estimates import Estimates
from tutti.annotation.judging import guidelines, verdicts
from tutti.annotation.judging.checks import lines_in
from tutti.annotation.judging.judgements import JudgementKind
from tutti.annotation.judging.pairs import FILLER, Kind, Pair, PairDraft, imported, pairs_of, plan
from tutti.annotation.judging.records import ACTIVE, CONTROLS, INVITED, LAPSED, QUALIFYING, RETRACTED, Annotator
from tutti.annotation.judging.rows import Rows
from tutti.annotation.publishing import facts
from tutti.annotation.publishing.sets import LINES, JudgementSet
from tutti.annotation.publishing.weighing import WHOLE, Weight, to_json
from tutti.annotation.tables import Tables
from tutti.chassis import version
from tutti.chassis.service import Host, TaskKind
from tutti.chassis.store import audit
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Retry, Task, TaskContext, WorkFailed
from tutti.chassis.work.reconciler import Reconciler, Trouble
from tutti.chassis.work.work import publish
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CANCELLED,
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_DRAFT,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PAUSED,
    CAMPAIGN_STATE_PUBLISHED,
    CAMPAIGN_STATE_QUALIFYING,
    CROWD_IMPORTED,
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    AnnotatorRetracted,
    Campaign,
    CampaignSpec,
    CampaignState,
)
from tutti.corpus.conversations.conversations import Answer
from tutti.records.canonical import JsonValue
from tutti.records.manifest import Kind as ManifestKind
from tutti.records.manifest import Manifest
from tutti.staging import fetching, linefiles

PAIRS, SETS, CROWDS = "campaign-pairs", "campaign-sets", "campaign-crowds"
ENDED = (CAMPAIGN_STATE_PUBLISHED, CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_CANCELLED)
QUALIFYING_TRIES = 4
"""Qualifying pairs of a campaign for each one that counts."""
FEW = 100
"""Pairs without their judgements, from which on it is asked whether somebody may be given them."""


class Campaigns:
    def __init__(
        self, host: Host, tables: Tables, rows: Rows, estimates: Estimates, look_seconds: float, undo_seconds: float
    ) -> None:
        self._host, self._tables, self._rows, self._estimates = host, tables, rows, estimates
        self._look_seconds, self._undo_seconds = look_seconds, undo_seconds
        self._producer = version.producer("annotation")

        def open_(unit: Unit) -> Iterable[str]:
            return [each.name for each in tables.campaigns.select(unit, state=[*UNDER_WAY])]

        self.reconciler = Reconciler("campaigns", host, open=open_, advance=self.advance, tell=self._tell)
        """Counts the judgements of campaigns under way, every `look_seconds` once it was woken."""

    def tasks(self) -> list[TaskKind]:
        return [
            TaskKind(name=PAIRS, run=self._make_pairs, on_failed=self._failed),
            TaskKind(name=SETS, run=self._publish, on_failed=self._failed),
        ]

    def note(self, unit: Unit, campaign: Campaign) -> None:
        """Put a campaign of which somebody changed something.

        The change is in the audit trail even if the campaign itself stays as it is, so that it gets no new revision.
        """
        self._tables.campaigns.put(unit, campaign)
        principal = unit.cause.principal
        if principal is not None and not principal.is_machine and unit.cause.action and not unit.wrote(campaign.name):
            audit.changed(unit, principal, unit.cause.action, campaign.name)

    def close(self, unit: Unit, campaign: Campaign, reason: str) -> Campaign:
        """Accept nothing more, and publish; the campaign is locked."""
        campaign.state, campaign.reason = CAMPAIGN_STATE_CLOSED, reason
        campaign.judgements = self._rows.judged(unit, campaign.name)[0]
        if not campaign.HasField("ended_at"):
            campaign.ended_at.FromDatetime(unit.now)
        made = self._tables.campaigns.put(unit, campaign)
        unit.enqueue(SETS, campaign.name, id=f"{campaign.name}/set/{made.revision}")
        self._estimates.renew(unit, made)
        return made

    def retract(self, unit: Unit, campaign: Campaign, annotator: Annotator, reason: str) -> None:
        """Take an annotator's judgements out of a campaign, which is locked; done again it changes nothing."""
        if annotator.state == RETRACTED:
            return
        kept = self._rows.kept(unit, campaign.name, annotator=annotator.key, kinds=[Kind.ORDINARY, *CONTROLS])
        judged = sum(each.said == JudgementKind.JUDGED for each in kept)
        self._rows.change_annotator(unit, annotator, state=RETRACTED, reason=reason)
        if campaign.state in UNDER_WAY:
            self._rows.release(unit, annotator)
        self._put_or_publish(unit, campaign, f"without {annotator.key}")
        fact = AnnotatorRetracted(campaign=campaign.name, annotator=annotator.key, judgements=judged)
        unit.fact_of_rows(campaign, fact)

    def weigh(self, unit: Unit, campaign: Campaign, annotator: Annotator, made: Weight) -> None:
        """Set the weight of an annotator in a campaign, which is locked; done again it changes nothing."""
        if (annotator.weight, annotator.weight_reason) == (made.value, made.reason):
            return
        self._rows.change_annotator(unit, annotator, weight=made.value, weight_reason=made.reason)
        if annotator.state == RETRACTED or annotator.weight == made.value == WHOLE:
            self.note(unit, campaign)
        else:
            self._put_or_publish(unit, campaign, f"since the weight of {annotator.key} was set to {made.value:g}")

    def retract_guideline(self, unit: Unit, campaign: Campaign, version: str, reason: str) -> None:
        """Let no judgement count that was made under a version of the guideline; the campaign is locked."""
        guidelines.retract(self._tables, unit, campaign.name, version, reason)
        self._counts_anew(unit, campaign, "without what was judged under a guideline that was retracted")

    def requalify(self, unit: Unit, campaign: Campaign) -> None:
        """Let everybody who judges take the qualification again before the next pair; the campaign is locked."""
        if not campaign.spec.qualification.pairs:
            return
        for each in self._rows.annotators(unit, campaign.name):
            if each.state == ACTIVE:
                for open_ in self._rows.open(unit, each):
                    self._rows.settle(unit, each, open_, LAPSED)
                self._rows.qualify_again(unit, each)

    def settle(self, unit: Unit, campaign: Campaign, pair: Pair, made: verdicts.Settled) -> None:
        """Record a verdict on a pair of a campaign, which is locked."""
        if verdicts.settle(self._tables, unit, campaign.name, pair, made):
            out = verdicts.left_out(self._tables, unit, campaign.name)
            self._rows.take_back(unit, campaign.name, out)
            campaign.settled_out = verdicts.count(self._tables, unit, campaign.name)
            self._counts_anew(unit, campaign, "since the verdict on a pair has changed")
        else:
            self.note(unit, campaign)

    def _counts_anew(self, unit: Unit, campaign: Campaign, why: str) -> None:
        """Go on with what counts now, or publish it."""
        if campaign.state in UNDER_WAY:
            campaign.wanted = _wanted(campaign.spec, campaign.pairs - campaign.settled_out)
            campaign.judgements = self._rows.judged(unit, campaign.name)[0]
            unit.on_commit(partial(self.reconciler.wake, campaign.name))
        self._put_or_publish(unit, campaign, why)

    def _put_or_publish(self, unit: Unit, campaign: Campaign, why: str) -> None:
        """Record that what counts has changed; a campaign that was published is published anew."""
        if campaign.state == CAMPAIGN_STATE_PUBLISHED:
            self.close(unit, campaign, f"published anew {why}")
        else:
            self._estimates.renew(unit, campaign)
            self.note(unit, campaign)

    def advance(self, name: str) -> bool | float | None:
        """Take back what lapsed, count, begin the next round or close."""

        def work(unit: Unit) -> bool | float | None:
            campaign = self._tables.campaigns.lock(unit, name)
            if campaign.state not in UNDER_WAY:
                return None
            self._estimates.look(unit, campaign)
            lapsed = self._rows.lapse(unit, name)
            judged, needed, lacking = self._rows.judged(unit, name)
            if campaign.state == CAMPAIGN_STATE_QUALIFYING:
                campaign.state = self.assigning(unit, campaign)
            deadline = self._deadline(campaign)
            late = deadline is not None and unit.now >= deadline
            complete = not lacking and needed >= campaign.wanted
            if complete and not late and (undoable := self._undoable(unit, campaign)) > 0:
                campaign.judgements = judged
                campaign.reason = f"has its judgements; closes {self._undo_seconds:g} s after the last one"
                self._tables.campaigns.put(unit, campaign)
                return undoable
            if late or complete:
                reason = ""
                if judged < campaign.wanted:
                    reason = f"closed at its deadline with {judged:,} of {campaign.wanted:,} judgements"
                self.close(unit, campaign, reason)
                return None
            if not lacking:
                self._next_round(unit, campaign, campaign.wanted - needed)
            campaign.judgements = judged
            campaign.reason = _waits(campaign, deadline, left_over=self._left_over(unit, campaign, lacking))
            self._tables.campaigns.put(unit, campaign)
            return True if lapsed else self._look_seconds

        return self._host.units.run(work)

    def _left_over(self, unit: Unit, campaign: Campaign, lacking: int) -> int:
        """The pairs that lack judgements, if they are FEW and none of the annotators will be given one; else 0."""
        if campaign.spec.crowd != CROWD_PEOPLE or not 0 < lacking <= FEW:
            return 0
        annotators = self._rows.annotators(unit, campaign.name)
        may_judge = any(
            each.state in (INVITED, QUALIFYING)
            or (
                each.state == ACTIVE
                and (self._rows.open(unit, each) or self._rows.free(unit, each, [Kind.ORDINARY], 1))
            )
            for each in annotators
        )
        return 0 if may_judge or not annotators else lacking

    def assigning(self, unit: Unit, campaign: Campaign) -> CampaignState.ValueType:
        """Return QUALIFYING until an annotator has passed the qualification, then OPEN; OPEN if there is none."""
        if not campaign.spec.qualification.pairs or self._rows.has_active(unit, campaign.name):
            return CAMPAIGN_STATE_OPEN
        return CAMPAIGN_STATE_OPEN if self._rows.judged(unit, campaign.name)[0] else CAMPAIGN_STATE_QUALIFYING

    def _next_round(self, unit: Unit, campaign: Campaign, lacking: int) -> None:
        said = self._rows.kept(unit, campaign.name, kinds=[Kind.ORDINARY], counted=True)
        axis = campaign.spec.axes[0].name
        chosen = rounds.chosen(self._rows.needs(unit, campaign.name), said, axis, campaign.spec.overlap.most, lacking)
        self._rows.need_more(unit, campaign.name, chosen)
        campaign.round += 1

    def _undoable(self, unit: Unit, campaign: Campaign) -> float:
        """Return the seconds for which the last judgement of people can still be undone."""
        newest = 0 if campaign.spec.crowd == CROWD_SIMULATED else self._rows.newest(unit, campaign.name)
        return newest / 1e6 + self._undo_seconds - unit.now.timestamp() if newest else 0.0

    def _deadline(self, campaign: Campaign) -> datetime | None:
        seconds = campaign.spec.deadline_seconds
        if not seconds or not campaign.HasField("started_at"):
            return None
        return campaign.started_at.ToDatetime(tzinfo=UTC) + timedelta(seconds=seconds)

    def _make_pairs(self, context: TaskContext) -> Finish:
        name = context.task.resource

        def look(unit: Unit) -> tuple[Campaign, str, str]:
            return (self._tables.campaigns.get(unit, name), *self._rows.texts(unit, name))

        campaign, brought, qualifying = self._host.units.run(look)
        if campaign.state != CAMPAIGN_STATE_DRAFT:
            return lambda unit: None
        spec = campaign.spec
        known = lines_in(qualifying, "qualifying")
        rule = spec.qualification
        is_imported = spec.crowd == CROWD_IMPORTED
        made = plan(
            self._given(context, spec, brought),
            seed=spec.seed,
            controls=0 if is_imported else spec.controls,
            filler=spec.filler or FILLER,
            qualifying=known,
            needed=0 if is_imported or len(known) >= rule.pairs else QUALIFYING_TRIES * rule.pairs,
        )
        ordinary = [pair for pair in made.pairs if pair.kind is Kind.ORDINARY]
        wanted = sum(len(pair.labels) for pair in ordinary) if is_imported else _wanted(spec, len(ordinary))
        _check_pairs(ordinary, made.left_out)
        needed = {} if is_imported else rounds.first([each.number for each in ordinary], spec.overlap.least, wanted)

        def finish(unit: Unit) -> None:
            campaign = self._tables.campaigns.lock(unit, name)
            if campaign.state != CAMPAIGN_STATE_DRAFT:
                return
            self._rows.add_pairs(unit, name, made.pairs, needed)
            campaign.state, campaign.pairs = self.assigning(unit, campaign), len(ordinary)
            campaign.left_out = made.left_out
            campaign.wanted = wanted
            campaign.started_at.FromDatetime(unit.now)
            if spec.crowd == CROWD_SIMULATED:
                for index in range(spec.simulated.annotators):
                    self._rows.add_annotator(unit, Annotator(name, f"s{index:03}", "", INVITED, "", "", 0))
                campaign.annotators = spec.simulated.annotators
                unit.enqueue(CROWDS, name, id=f"{name}/crowd")
            if is_imported:
                keys = self._rows.add_labels(unit, name, ordinary, campaign.guideline)
                campaign.annotators = len(keys)
                said = {each.id: each.said for each in self._rows.kept(unit, name)}
                unit.fact_of_rows(self.close(unit, campaign, ""), facts.accepted(campaign, said))
                return
            campaign.reason = _waits(campaign, self._deadline(campaign))
            self._tables.campaigns.put(unit, campaign)
            unit.on_commit(partial(self.reconciler.wake, name))

        return finish

    def _given(self, context: TaskContext, spec: CampaignSpec, brought: str) -> list[PairDraft]:
        if spec.crowd == CROWD_IMPORTED:
            return list(imported(lines_in(brought, "pairs"), spec.seed))
        if brought:
            return [PairDraft(line.prompt, line.answers, stops=line.stops) for line in lines_in(brought, "pairs")]
        samples = []
        for source in spec.answers:
            context.check()
            manifest = fetching.manifest(
                self._host.blobs, source.manifest_key, source.content_digest, ManifestKind.SAMPLE
            )
            samples.append((source.sample, linefiles.read(self._host.blobs, manifest, Answer)))
        return list(pairs_of(samples))

    def _publish(self, context: TaskContext) -> Finish:
        name = context.task.resource
        judged = self._host.units.run(lambda unit: collected(self._rows, unit, name))
        campaign = judged.campaign
        if campaign.state not in (CAMPAIGN_STATE_CLOSED, CAMPAIGN_STATE_PUBLISHED):
            return lambda unit: None
        context.check()
        manifest = self._manifest(campaign, judged.found)
        result = publish(self._host.blobs, "annotation", manifest, data_bytes=0)

        def finish(unit: Unit) -> None:
            campaign = self._tables.campaigns.lock(unit, name)
            if excluded(self._rows, unit, name) != judged.excluded:
                raise Retry("what counts has changed meanwhile", 0.1)
            if campaign.state in (CAMPAIGN_STATE_CLOSED, CAMPAIGN_STATE_PUBLISHED):
                campaign.state = CAMPAIGN_STATE_PUBLISHED
                campaign.result.CopyFrom(result)
                self._tables.hold(unit, result.manifest_key, [name])
                self._tables.campaigns.put(unit, campaign)

        return finish

    def _manifest(self, campaign: Campaign, found: JudgementSet) -> Manifest:
        blobs = self._host.blobs
        body: dict[str, JsonValue] = {
            "answers": sorted({source.content_digest for source in campaign.spec.answers}),
            "axes": [{"name": axis.name, "rule": axis.rule} for axis in campaign.spec.axes],
            "excluded": dict(found.excluded),
            "lines": linefiles.write(blobs, LINES, found.judgements).to_json(),
            "logic_version": campaign.spec.logic_version,
            "pairs": linefiles.write(blobs, LINES, found.pairs).to_json(),
            "simulated": campaign.spec.crowd == CROWD_SIMULATED,
        }
        if campaign.spec.crowd == CROWD_IMPORTED:
            body["imported"] = True
        if found.weights:
            body["weights"] = to_json(found.weights)
        return Manifest(ManifestKind.JUDGEMENTS, body, (), self._producer)

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        campaign = self._tables.campaigns.lock(unit, task.resource)
        if campaign.state not in ENDED:
            campaign.state, campaign.reason = CAMPAIGN_STATE_FAILED, clipped(reason)
            campaign.ended_at.FromDatetime(unit.now)
            self._tables.campaigns.put(unit, campaign)

    def _tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        campaign = self._tables.campaigns.lock(unit, name)
        if trouble is not None and campaign.state in UNDER_WAY:
            campaign.reason = clipped(trouble.reason)
            self._tables.campaigns.put(unit, campaign)


def _wanted(spec: CampaignSpec, pairs: int) -> int:
    """The judgements to collect of so many pairs."""
    return min(spec.judgements or pairs * spec.overlap.least, pairs * spec.overlap.most)


def _check_pairs(ordinary: list[Pair], left_out: int) -> None:
    """Raises WorkFailed."""
    if not ordinary:
        raise WorkFailed(
            f"no pair can be compared, and {left_out:,} were left out since their answers are equal or too long; a "
            f"prompt needs two different answers (raise `each` or the temperature of the samples)"
        )


def _waits(campaign: Campaign, deadline: datetime | None, *, left_over: int = 0) -> str:
    said = f"{campaign.judgements:,} of {campaign.wanted:,} judgements by {campaign.annotators:,} annotators"
    if left_over:
        said = f"its annotators can judge none of the pairs that are left ({left_over}): invite another one; {said}"
    if campaign.state == CAMPAIGN_STATE_PAUSED:
        said = f"paused; {said}"
    if campaign.state == CAMPAIGN_STATE_QUALIFYING:
        said = f"nobody has passed the qualification yet; {said}"
    return f"{said}; closes at {deadline:%Y-%m-%d %H:%M} UTC" if deadline else said
