"""The calls that annotation answers.

Promises: a campaign of another tenant does not exist for a caller, nor what was made of its judgements; a change that
is asked for again changes nothing.
"""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message as AnyMessage

from tutti.annotation.campaigns.campaigns import PAIRS
from tutti.annotation.campaigns.collecting import ASSIGNING, UNDER_WAY
from tutti.annotation.judging import demonstrations, verdicts
from tutti.annotation.judging.checks import check_campaign, extended, filled
from tutti.annotation.judging.pairs import Verdict, guideline_version
from tutti.annotation.publishing import preferring, versions
from tutti.annotation.rpc.annotators import AnnotatorCalls
from tutti.annotation.rpc.calls import ENDED, GONE, NAME_TAKEN, not_open
from tutti.annotation.rpc.guidelines import GuidelineCalls
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import require_done
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CANCELLED,
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_DRAFT,
    CAMPAIGN_STATE_PAUSED,
    CAMPAIGN_STATE_PUBLISHED,
    VERDICT_KEPT,
    VERDICT_LEFT_OUT,
    AcceptedDemonstrations,
    Campaign,
    CampaignSpec,
    CampaignState,
    CloneCampaignRequest,
    CloseCampaignRequest,
    CreateCampaignRequest,
    CreateCampaignResponse,
    CreateDemonstrationsRequest,
    CreateDemonstrationsResponse,
    CreatePreferencesRequest,
    CreatePreferencesResponse,
    Demonstration,
    Demonstrations,
    ExtendCampaignRequest,
    FindDemonstrationsRequest,
    FindDemonstrationsResponse,
    ListWrittenDemonstrationsRequest,
    ListWrittenDemonstrationsResponse,
    PauseCampaignRequest,
    Preferences,
    ReadDemonstrationsRequest,
    ReadDemonstrationsResponse,
    ReadPreferencesRequest,
    ReadPreferencesResponse,
    ResumeCampaignRequest,
    ReviewDemonstrationRequest,
    SettledPair,
    SettlePairRequest,
)
from tutti.contracts.common.v1 import CancelRequest, GetRequest
from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.conversations.conversationset import Lines
from tutti.records.manifest import Kind
from tutti.staging import fetching

VERDICTS = {VERDICT_KEPT: Verdict.KEPT, VERDICT_LEFT_OUT: Verdict.LEFT_OUT}


class AnnotationApi(AnnotatorCalls, GuidelineCalls):
    def CreateCampaign(self, request: CreateCampaignRequest, call: Call) -> CreateCampaignResponse:
        check_campaign(request.spec)
        made = _draft(request.name, filled(request.spec), guideline_version(request.spec.guideline), call)
        for private in ("pairs", "qualifying", "guideline"):
            made.spec.ClearField(private)
        if request.validate_only:
            return CreateCampaignResponse(campaign=made)
        check_name("campaigns", request.name)
        texts = (request.spec.pairs, request.spec.qualifying, request.spec.guideline)
        created = self._units.run(lambda unit: self._create(unit, made, request, texts, call))
        return CreateCampaignResponse(campaign=created)

    def CloneCampaign(self, request: CloneCampaignRequest, call: Call) -> Campaign:
        check_name("campaigns", request.name)
        check_name("campaigns", request.source, field="source")

        def clone(unit: Unit) -> Campaign:
            source = self._tables.campaigns.get_for(unit, request.source, call.principal)
            made = _draft(request.name, source.spec, source.guideline, call)
            if request.validate_only:
                return made
            guideline = self._rows.guideline(unit, source.name, source.guideline) or ""
            return self._create(unit, made, request, (*self._rows.texts(unit, source.name), guideline), call)

        return self._units.run(clone)

    def _create(
        self, unit: Unit, made: Campaign, request: AnyMessage, texts: tuple[str, str, str], call: Call
    ) -> Campaign:
        """Record a draft. `texts` are its pairs, its qualifying pairs and its guideline."""
        pairs, qualifying, guideline = texts
        created = self._tables.campaigns.create(unit, made, request)
        if not self._tables.campaigns.shows(unit, created, call.principal):
            raise Refused(NAME_TAKEN, f"the name {made.name} is taken: choose another name and request_id")
        self._rows.add_texts(unit, made.name, pairs, qualifying)
        self._rows.add_guideline(unit, made.name, made.guideline, guideline)
        unit.enqueue(PAIRS, made.name, id=made.name)
        return created

    def CancelCampaign(self, request: CancelRequest, call: Call) -> Campaign:
        def cancel(unit: Unit, campaign: Campaign) -> Campaign:
            if campaign.state in ENDED or request.validate_only:
                return campaign
            unit.cancel_tasks(campaign.name)
            campaign.state, campaign.reason = CAMPAIGN_STATE_CANCELLED, "cancelled on request"
            campaign.ended_at.FromDatetime(unit.now)
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, cancel)

    def PauseCampaign(self, request: PauseCampaignRequest, call: Call) -> Campaign:
        def pause(_: Unit, campaign: Campaign) -> CampaignState.ValueType | None:
            return CAMPAIGN_STATE_PAUSED if campaign.state in UNDER_WAY else None

        return self._moved(request, call, pause, "paused")

    def ResumeCampaign(self, request: ResumeCampaignRequest, call: Call) -> Campaign:
        def resume(unit: Unit, campaign: Campaign) -> CampaignState.ValueType | None:
            if campaign.state == CAMPAIGN_STATE_PAUSED:
                return self._campaigns.assigning(unit, campaign)
            return campaign.state if campaign.state in ASSIGNING else None

        return self._moved(request, call, resume, "resumed")

    def CloseCampaign(self, request: CloseCampaignRequest, call: Call) -> Campaign:
        def close(unit: Unit, campaign: Campaign) -> Campaign:
            if campaign.state in (CAMPAIGN_STATE_CLOSED, CAMPAIGN_STATE_PUBLISHED):
                return campaign
            if campaign.state not in UNDER_WAY:
                raise not_open(campaign, "closed")
            if request.validate_only:
                return campaign
            judged = self._rows.judged(unit, campaign.name)[0]
            lacking = judged < campaign.wanted
            reason = f"closed on request with {judged:,} of {campaign.wanted:,} judgements" if lacking else ""
            return self._campaigns.close(unit, campaign, reason)

        return self._changed(request.name, call, close)

    def ExtendCampaign(self, request: ExtendCampaignRequest, call: Call) -> Campaign:
        def extend(unit: Unit, campaign: Campaign) -> Campaign:
            if campaign.state not in UNDER_WAY:
                raise not_open(campaign, "extended; a clone can collect more")
            extended(campaign, request)
            if request.validate_only:
                return campaign
            unit.on_commit(lambda: self._campaigns.reconciler.wake(campaign.name))
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, extend)

    def SettlePair(self, request: SettlePairRequest, call: Call) -> SettledPair:
        required(request, "campaign", "pair")
        made = verdicts.read(VERDICTS.get(request.verdict), request.reason)

        def settle(unit: Unit, campaign: Campaign) -> SettledPair:
            pair = verdicts.about(self._rows, unit, campaign.name, request.pair)
            if not request.validate_only:
                self._campaigns.settle(unit, campaign, pair, made)
            return SettledPair(campaign=campaign.name, pair=pair.id, verdict=request.verdict, reason=made.reason)

        return self._changed(request.campaign, call, settle)

    def ListWrittenDemonstrations(
        self, request: ListWrittenDemonstrationsRequest, call: Call
    ) -> ListWrittenDemonstrationsResponse:
        name = check_name("campaigns", request.campaign, field="campaign")

        def look(unit: Unit) -> ListWrittenDemonstrationsResponse:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return demonstrations.page(self._tables, unit, name, request.page_token)

        return self._units.run(look)

    def ReviewDemonstration(self, request: ReviewDemonstrationRequest, call: Call) -> Demonstration:
        required(request, "campaign", "id")
        demonstrations.check(request)

        def review(unit: Unit, campaign: Campaign) -> Demonstration:
            found = demonstrations.review(self._tables, unit, campaign.name, request, call.principal)
            if not request.validate_only:
                self._campaigns.note(unit, campaign)
            return found

        return self._changed(request.campaign, call, review)

    def CreatePreferences(self, request: CreatePreferencesRequest, call: Call) -> CreatePreferencesResponse:
        preferring.check(request.spec)
        self._check_shown([each.campaign for each in preferring.campaigns_of(request.spec)], call)
        return CreatePreferencesResponse(preferences=self._preferences.create(request))

    def ReadPreferences(self, request: ReadPreferencesRequest, call: Call) -> ReadPreferencesResponse:
        found = self._preferences.get(GetRequest(name=request.name), call.principal)
        return ReadPreferencesResponse(data=self._read(found, Kind.PREFERENCES, request.offset))

    def FindDemonstrations(self, request: FindDemonstrationsRequest, call: Call) -> FindDemonstrationsResponse:
        name = check_name("campaigns", request.campaign, field="campaign")

        def look(unit: Unit) -> list[Conversation]:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return list(demonstrations.accepted(self._tables, unit, name))

        found = versions.found(self._blobs, name, self._units.run(look))
        self._units.run(lambda unit: self._tables.hold(unit, found.accepted.manifest_key, [name]))
        return found

    def CreateDemonstrations(self, request: CreateDemonstrationsRequest, call: Call) -> CreateDemonstrationsResponse:
        versions.check(request.spec)
        self._check_shown([each.campaign for each in request.spec.accepted], call)
        made = self._published.create(request, check=lambda: self._check_newest(request.spec.accepted, call))
        return CreateDemonstrationsResponse(demonstrations=made)

    def _check_newest(self, accepted: Sequence[AcceptedDemonstrations], call: Call) -> None:
        """Raises InvalidField if other answers are accepted now."""
        for place, each in enumerate(accepted):
            now = self.FindDemonstrations(FindDemonstrationsRequest(campaign=each.campaign), call).accepted
            if each != now:
                expected = f"{now.content_digest}, the answers that are accepted now; ask FindDemonstrations again"
                raise InvalidField(f"spec.accepted[{place}]", seen=each.content_digest, expected=expected)

    def ReadDemonstrations(self, request: ReadDemonstrationsRequest, call: Call) -> ReadDemonstrationsResponse:
        found = self._published.get(GetRequest(name=request.name), call.principal)
        return ReadDemonstrationsResponse(data=self._read(found, Kind.CONVERSATIONS, request.offset))

    def _read(self, found: Preferences | Demonstrations, kind: Kind, offset: int) -> bytes:
        """A piece of the lines of finished work. Raises Refused."""
        require_done(found)
        gone = Refused(GONE, f"the lines of {found.name} are gone; run the recipe again")
        try:
            manifest = fetching.manifest(self._blobs, found.result.manifest_key, found.result.content_digest, kind)
        except WorkFailed as error:
            raise gone from error
        lines = Lines.of(manifest)
        return fetching.piece(self._blobs, lines.blob, lines.bytes, offset, gone=gone)

    def _check_shown(self, campaigns: Sequence[str], call: Call) -> None:
        """Raises NotFound if one of the campaigns belongs to another tenant."""
        if not self._units.run(lambda unit: self._tables.all_shown(unit, campaigns, call.principal)):
            raise NotFound(", ".join(campaigns))

    def _moved(
        self,
        request: PauseCampaignRequest | ResumeCampaignRequest,
        call: Call,
        after: Callable[[Unit, Campaign], CampaignState.ValueType | None],
        what: str,
    ) -> Campaign:
        """Move a campaign to the state that `after` gives. Raises Refused where it gives none."""

        def move(unit: Unit, campaign: Campaign) -> Campaign:
            state = after(unit, campaign)
            if state is None:
                raise not_open(campaign, what)
            if request.validate_only or campaign.state == state:
                return campaign
            campaign.state = state
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, move)


def _draft(name: str, spec: CampaignSpec, guideline: str, call: Call) -> Campaign:
    return Campaign(
        name=name,
        spec=spec,
        state=CAMPAIGN_STATE_DRAFT,
        reason="its pairs are being made",
        tenant=call.principal.tenant,
        guideline=guideline,
    )
