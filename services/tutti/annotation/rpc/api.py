"""The calls that annotation answers.

Promises: a campaign of another tenant does not exist for a caller, nor what was made of its judgements; a change that
is asked for again changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import Message as AnyMessage

from tutti.annotation import erasing
from tutti.annotation.campaigns.campaigns import PAIRS, Campaigns
from tutti.annotation.campaigns.collecting import ASSIGNING, UNDER_WAY
from tutti.annotation.campaigns.estimates import Estimates
from tutti.annotation.campaigns.listing import listed, wire
from tutti.annotation.judging import demonstrations, guidelines, messages, verdicts
from tutti.annotation.judging.checks import check_campaign, check_guideline, check_reason, extended, filled
from tutti.annotation.judging.pairs import Verdict, guideline_version
from tutti.annotation.judging.rows import INVITED, SUSPENDED, Annotator, Rows
from tutti.annotation.publishing import preferring, versions, weighing
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField, NotFound, Refused, declare
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work, require_done
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CANCELLED,
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_DRAFT,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PAUSED,
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    VERDICT_KEPT,
    VERDICT_LEFT_OUT,
    AnswerMessageRequest,
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
    EraseAnnotatorRequest,
    ErasedAnnotator,
    ExtendCampaignRequest,
    FindDemonstrationsRequest,
    FindDemonstrationsResponse,
    Guideline,
    InviteAnnotatorRequest,
    ListAnnotatorsRequest,
    ListAnnotatorsResponse,
    ListGuidelinesRequest,
    ListGuidelinesResponse,
    ListMessagesRequest,
    ListMessagesResponse,
    ListWrittenDemonstrationsRequest,
    ListWrittenDemonstrationsResponse,
    Message,
    PauseCampaignRequest,
    Preferences,
    ReadDemonstrationsRequest,
    ReadDemonstrationsResponse,
    ReadGuidelineRequest,
    ReadGuidelineResponse,
    ReadPreferencesRequest,
    ReadPreferencesResponse,
    RequalifyAnnotatorRequest,
    ResumeCampaignRequest,
    RetractAnnotatorRequest,
    RetractGuidelineRequest,
    ReviewDemonstrationRequest,
    SettledPair,
    SettlePairRequest,
    UpdateGuidelineRequest,
    WeighAnnotatorRequest,
)
from tutti.contracts.annotation.v1 import Annotator as WireAnnotator
from tutti.contracts.common.v1 import CancelRequest, GetRequest
from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.conversations.conversationset import Lines
from tutti.records.manifest import Kind
from tutti.staging import fetching

NOT_OPEN, SIMULATED = "NOT_OPEN", "SIMULATED_CROWD"
KEY_TAKEN, NAME_TAKEN = "KEY_TAKEN", "NAME_TAKEN"
IN_FORCE, RETRACTED = "GUIDELINE_IN_FORCE", "GUIDELINE_RETRACTED"
GONE = "PREFERENCES_GONE"
declare(
    {
        NOT_OPEN: "the state of the campaign does not allow the call; the message names the state",
        SIMULATED: "the campaign has a simulated crowd or imported judgements: people cannot judge in it",
        GONE: "the stored lines of preferences or demonstrations are missing or damaged; run the recipe again",
        KEY_TAKEN: "the key belongs to another annotator of the campaign",
        NAME_TAKEN: "a campaign that the caller may not see has the name",
        IN_FORCE: "annotators judge by this version of the guideline now: replace it before it is retracted",
        RETRACTED: "this version of the guideline was retracted: a campaign cannot return to it",
    }
)
M = TypeVar("M", Campaign, Preferences, Demonstrations)
R = TypeVar("R", bound=AnyMessage)
T = TypeVar("T")
VERDICTS = {VERDICT_KEPT: Verdict.KEPT, VERDICT_LEFT_OUT: Verdict.LEFT_OUT}
ENDED = (CAMPAIGN_STATE_CLOSED, CAMPAIGN_STATE_PUBLISHED, CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_CANCELLED)


class AnnotationApi:
    def __init__(
        self,
        host: Host,
        tables: Tables,
        rows: Rows,
        campaigns: Campaigns,
        preferences: Work[Preferences],
        published: Work[Demonstrations],
        estimates: Estimates,
    ) -> None:
        self._units, self._blobs = host.units, host.blobs
        self._tables, self._rows, self._campaigns = tables, rows, campaigns
        self._preferences, self._published, self._estimates = preferences, published, estimates

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
                raise _not_open(campaign, "closed")
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
                raise _not_open(campaign, "extended; a clone can collect more")
            extended(campaign, request)
            if request.validate_only:
                return campaign
            unit.on_commit(lambda: self._campaigns.reconciler.wake(campaign.name))
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, extend)

    def UpdateGuideline(self, request: UpdateGuidelineRequest, call: Call) -> Campaign:
        check_guideline(request.text, "text")

        def update(unit: Unit, campaign: Campaign) -> Campaign:
            if campaign.state in ENDED:
                raise _not_open(campaign, "given another guideline")
            if request.validate_only:
                return campaign
            campaign.guideline = guideline_version(request.text)
            if campaign.guideline in guidelines.retracted(self._tables, unit, campaign.name):
                raise Refused(RETRACTED, f"{campaign.guideline} was retracted; expected another text")
            self._rows.add_guideline(unit, campaign.name, campaign.guideline, request.text)
            if request.requalify:
                self._campaigns.requalify(unit, campaign)
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, update)

    def ReadGuideline(self, request: ReadGuidelineRequest, call: Call) -> ReadGuidelineResponse:
        name = check_name("campaigns", request.name)

        def read(unit: Unit) -> ReadGuidelineResponse:
            campaign = self._tables.campaigns.get_for(unit, name, call.principal)
            version = request.version or campaign.guideline
            text = self._rows.guideline(unit, name, version)
            if text is None:
                raise NotFound(f"the guideline {version} of {name}")
            return ReadGuidelineResponse(version=version, text=text)

        return self._units.run(read)

    def ListGuidelines(self, request: ListGuidelinesRequest, call: Call) -> ListGuidelinesResponse:
        name = check_name("campaigns", request.campaign, field="campaign")

        def look(unit: Unit) -> list[Guideline]:
            return guidelines.versions(self._tables, unit, self._tables.campaigns.get_for(unit, name, call.principal))

        return ListGuidelinesResponse(guidelines=self._units.run(look))

    def RetractGuideline(self, request: RetractGuidelineRequest, call: Call) -> Guideline:
        required(request, "campaign", "version", "reason")
        reason = check_reason(request.reason)

        def retract(unit: Unit, campaign: Campaign) -> Guideline:
            def found() -> Guideline:
                every = guidelines.versions(self._tables, unit, campaign)
                for each in every:
                    if each.version == request.version:
                        return each
                raise NotFound(f"the guideline {request.version[:100]} of {campaign.name}")

            before = found()
            if before.current and campaign.state not in ENDED:
                raise Refused(IN_FORCE, f"{before.version} is in force in {campaign.name}: replace the guideline first")
            if before.retracted or request.validate_only:
                return before
            self._campaigns.retract_guideline(unit, campaign, request.version, reason)
            return found()

        return self._changed(request.campaign, call, retract)

    def SettlePair(self, request: SettlePairRequest, call: Call) -> SettledPair:
        required(request, "campaign", "pair")
        made = verdicts.read(VERDICTS.get(request.verdict), request.reason)

        def settle(unit: Unit, campaign: Campaign) -> SettledPair:
            pair = verdicts.about(self._rows, unit, campaign.name, request.pair)
            if not request.validate_only:
                self._campaigns.settle(unit, campaign, pair, made)
            return SettledPair(campaign=campaign.name, pair=pair.id, verdict=request.verdict, reason=made.reason)

        return self._changed(request.campaign, call, settle)

    def InviteAnnotator(self, request: InviteAnnotatorRequest, call: Call) -> WireAnnotator:
        required(request, "campaign", "user")
        user = check_name("users", request.user, field="user")
        if request.key and not request.key.isalnum():
            raise InvalidField("key", seen=request.key, expected="letters and digits")

        def invite(unit: Unit, campaign: Campaign) -> Annotator:
            if campaign.spec.crowd != CROWD_PEOPLE:
                kind = "a simulated crowd" if campaign.spec.crowd == CROWD_SIMULATED else "imported judgements"
                raise Refused(SIMULATED, f"{campaign.name} has {kind}: nobody can be invited to it")
            if (found := self._rows.annotator(unit, campaign.name, user=user)) is not None:
                return found
            if campaign.state in ENDED:
                raise _not_open(campaign, "joined")
            every = self._rows.annotators(unit, campaign.name)
            key = request.key or f"a{len(every):03}"
            if any(each.key == key for each in every):
                raise Refused(KEY_TAKEN, f"{campaign.name} has an annotator {key} already: choose another key")
            made = Annotator(campaign.name, key, user, INVITED, "", "", 0)
            if not request.validate_only:
                self._rows.add_annotator(unit, made)
                campaign.annotators = len(every) + 1
                self._tables.campaigns.put(unit, campaign)
            return made

        return wire(self._changed(request.campaign, call, invite))

    def ListAnnotators(self, request: ListAnnotatorsRequest, call: Call) -> ListAnnotatorsResponse:
        name = check_name("campaigns", request.campaign, field="campaign")
        found = self._units.run(
            lambda unit: listed(self._rows, unit, self._tables.campaigns.get_for(unit, name, call.principal))
        )
        fit = self._estimates.add_to(found, name)
        return ListAnnotatorsResponse(annotators=found, fit=fit)

    def RetractAnnotator(self, request: RetractAnnotatorRequest, call: Call) -> WireAnnotator:
        required(request, "campaign", "key", "reason")
        reason = check_reason(request.reason)

        def retract(unit: Unit, campaign: Campaign) -> Annotator:
            found = self._rows.annotator(unit, campaign.name, key=request.key)
            if found is None:
                raise NotFound(f"the annotator {request.key} of {campaign.name}")
            if request.validate_only:
                return found
            self._campaigns.retract(unit, campaign, found, reason)
            changed = self._rows.annotator(unit, campaign.name, key=request.key)
            assert changed is not None
            return changed

        return wire(self._changed(request.campaign, call, retract))

    def WeighAnnotator(self, request: WeighAnnotatorRequest, call: Call) -> WireAnnotator:
        required(request, "campaign", "key")
        made = weighing.read(request.weight if request.HasField("weight") else None, request.reason)

        def weigh(unit: Unit, campaign: Campaign) -> Annotator:
            found = self._rows.annotator(unit, campaign.name, key=request.key)
            if found is None:
                raise NotFound(f"the annotator {request.key} of {campaign.name}")
            if not request.validate_only:
                self._campaigns.weigh(unit, campaign, found, made)
            return replace(found, weight=made.value, weight_reason=made.reason)

        return wire(self._changed(request.campaign, call, weigh))

    def RequalifyAnnotator(self, request: RequalifyAnnotatorRequest, call: Call) -> WireAnnotator:
        required(request, "campaign", "key")

        def requalify(unit: Unit, campaign: Campaign) -> Annotator:
            if campaign.state in ENDED:
                raise _not_open(campaign, "joined")
            found = self._rows.annotator(unit, campaign.name, key=request.key)
            if found is None:
                raise NotFound(f"the annotator {request.key} of {campaign.name}")
            if found.state != SUSPENDED or request.validate_only:
                return found
            self._rows.qualify_again(unit, found)
            self._campaigns.note(unit, campaign)
            return replace(found, state=INVITED, reason="")

        return wire(self._changed(request.campaign, call, requalify))

    def EraseAnnotator(self, request: EraseAnnotatorRequest, call: Call) -> ErasedAnnotator:
        required(request, "campaign", "key")

        def erase(unit: Unit, campaign: Campaign) -> ErasedAnnotator:
            if self._rows.annotator(unit, campaign.name, key=request.key) is None:
                raise NotFound(f"the annotator {request.key} of {campaign.name}")
            found = erasing.texts(self._tables, unit, campaign.name, request.key)
            if not request.validate_only:
                erasing.erase(self._tables, unit, campaign.name, request.key)
                self._campaigns.note(unit, campaign)
            return found

        return self._changed(request.campaign, call, erase)

    def ListMessages(self, request: ListMessagesRequest, call: Call) -> ListMessagesResponse:
        name = check_name("campaigns", request.campaign, field="campaign")

        def look(unit: Unit) -> Sequence[messages.Message]:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return messages.sent(self._tables, unit, name)

        return ListMessagesResponse(messages=[messages.wire(name, each) for each in self._units.run(look)])

    def AnswerMessage(self, request: AnswerMessageRequest, call: Call) -> Message:
        required(request, "campaign", "id", "text")

        def answer(unit: Unit, campaign: Campaign) -> messages.Message:
            made = messages.Answer(request.text, call.principal.user, only_checked=request.validate_only)
            found = messages.answer(self._tables, unit, campaign.name, request.id, made)
            if not request.validate_only:
                self._campaigns.note(unit, campaign)
            return found

        return messages.wire(request.campaign, self._changed(request.campaign, call, answer))

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
        if not self._units.run(lambda unit: self._published.resource.find(unit, request.name)):
            for place, each in enumerate(request.spec.accepted):
                now = self.FindDemonstrations(FindDemonstrationsRequest(campaign=each.campaign), call).accepted
                if each != now:
                    expected = f"{now.content_digest}, the answers that are accepted now; ask FindDemonstrations again"
                    raise InvalidField(f"spec.accepted[{place}]", seen=each.content_digest, expected=expected)
        return CreateDemonstrationsResponse(demonstrations=self._published.create(request))

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
                raise _not_open(campaign, what)
            if request.validate_only or campaign.state == state:
                return campaign
            campaign.state = state
            return self._tables.campaigns.put(unit, campaign)

        return self._changed(request.name, call, move)

    def _changed(self, name: str, call: Call, change: Callable[[Unit, Campaign], T]) -> T:
        """Run `change` on a campaign of the caller's tenant, locked. Raises NotFound."""
        check_name("campaigns", name)

        def run(unit: Unit) -> T:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return change(unit, self._tables.campaigns.lock(unit, name))

        return self._units.run(run)


def _draft(name: str, spec: CampaignSpec, guideline: str, call: Call) -> Campaign:
    return Campaign(
        name=name,
        spec=spec,
        state=CAMPAIGN_STATE_DRAFT,
        reason="its pairs are being made",
        tenant=call.principal.tenant,
        guideline=guideline,
    )


def _not_open(campaign: Campaign, done: str) -> Refused:
    state = CampaignState.Name(campaign.state).removeprefix("CAMPAIGN_STATE_").lower()
    return Refused(NOT_OPEN, f"{campaign.name} is {state}: it cannot be {done}")
