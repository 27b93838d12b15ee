"""Calls about the guideline of a campaign and its versions."""

from tutti.annotation.judging import guidelines
from tutti.annotation.judging.checks import check_guideline, check_reason
from tutti.annotation.judging.pairs import guideline_version
from tutti.annotation.rpc.calls import ENDED, IN_FORCE, RETRACTED, Calls, not_open
from tutti.chassis.errors import NotFound, Refused
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    Campaign,
    Guideline,
    ListGuidelinesRequest,
    ListGuidelinesResponse,
    ReadGuidelineRequest,
    ReadGuidelineResponse,
    RetractGuidelineRequest,
    UpdateGuidelineRequest,
)


class GuidelineCalls(Calls):
    def UpdateGuideline(self, request: UpdateGuidelineRequest, call: Call) -> Campaign:
        check_guideline(request.text, "text")

        def update(unit: Unit, campaign: Campaign) -> Campaign:
            if campaign.state in ENDED:
                raise not_open(campaign, "given another guideline")
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
