"""Calls about the annotators of a campaign and their messages."""

from collections.abc import Sequence
from dataclasses import replace

from tutti.annotation import erasing
from tutti.annotation.campaigns.listing import listed, wire
from tutti.annotation.judging import messages, raw
from tutti.annotation.judging.checks import check_reason
from tutti.annotation.judging.records import INVITED, SUSPENDED, Annotator
from tutti.annotation.publishing import weighing
from tutti.annotation.rpc.calls import ENDED, KEY_TAKEN, SIMULATED, Calls, not_open
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    AnswerMessageRequest,
    Campaign,
    EraseAnnotatorRequest,
    ErasedAnnotator,
    InviteAnnotatorRequest,
    ListAnnotatorsRequest,
    ListAnnotatorsResponse,
    ListMessagesRequest,
    ListMessagesResponse,
    Message,
    ReadJudgementsRequest,
    ReadJudgementsResponse,
    RequalifyAnnotatorRequest,
    RetractAnnotatorRequest,
    WeighAnnotatorRequest,
)
from tutti.contracts.annotation.v1 import Annotator as WireAnnotator


class AnnotatorCalls(Calls):
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
                raise not_open(campaign, "joined")
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

    def ReadJudgements(self, request: ReadJudgementsRequest, call: Call) -> ReadJudgementsResponse:
        name = check_name("campaigns", request.campaign, field="campaign")

        def look(unit: Unit) -> ReadJudgementsResponse:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return raw.page(self._tables, unit, name, request.page_token)

        return self._units.run(look)

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
                raise not_open(campaign, "joined")
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
