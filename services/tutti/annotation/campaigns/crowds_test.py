"""Simulated crowds: they use the calls of browsers, survive crashes, and judge what they would have judged."""

import itertools
import json
from typing import Any

import pytest

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service import build
from tutti.chassis.errors import InvalidField, NotFound, PermissionDenied, Refused, Unavailable
from tutti.chassis.identity.principal import Principal
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_SIMULATED,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    Overlap,
    Qualification,
    RetractAnnotatorRequest,
    SimulatedCrowd,
    UpdateGuidelineRequest,
)
from tutti.simulation import Simulation

CROWD = """
utility: letters@1
kinds:
  - {name: fair, share: 0.8, sharpness: [1.5, 3.5]}
  - {name: random, share: 0.2, sharpness: [0, 0]}
"""
LEASES, JUDGEMENTS = "/annotation/api/leases", "/annotation/api/judgements"


def crowd(annotators: int = 5, text: str = CROWD, **changes: Any) -> CampaignSpec:
    given: dict[str, Any] = {
        "pairs": 12,
        "crowd": CROWD_SIMULATED,
        "simulated": SimulatedCrowd(annotators=annotators, crowd=text),
        "overlap": Overlap(least=1, most=3),
        "controls": 0.2,
        "judgements": 30,
        "qualification": Qualification(pairs=2, right=2),
    }
    return spec(**given | changes)


def published(seed: int, given: CampaignSpec, **options: Any) -> Campaign:
    """The campaign in a world with this seed, after its judgements were published."""
    with Simulation(seed, builds={"annotation": build}, **options) as world:
        desks = Desks(world)
        desks.create(given)
        found = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
        world.settle()
        world.examine()
        return found


def test_a_crowd_gives_equal_judgements_in_every_world() -> None:
    calm = published(0, crowd(), rates={})
    assert (calm.judgements, calm.annotators, calm.round) == (30, 5, 2)
    for seed in range(3):
        found = published(seed, crowd())
        assert found.result.content_digest == calm.result.content_digest
    assert published(0, crowd(seed=4), rates={}).result.content_digest != calm.result.content_digest


def test_nobody_else_judges_in_a_simulated_campaign(desks: Desks) -> None:
    desks.create(crowd())
    with pytest.raises(Refused, match="simulated crowd"):
        desks.invite("ada")


@pytest.mark.parametrize(
    ("text", "words"), [("utility: none\nkinds: []", "kinds"), ("[", "YAML"), ("utility: none\nkinds: [{}]", "kinds.0")]
)
def test_a_crowd_that_cannot_be_simulated_is_refused(desks: Desks, text: str, words: str) -> None:
    request = CreateCampaignRequest(name="campaigns/a", spec=crowd(text=text))
    with pytest.raises(InvalidField, match=words):
        desks.stub.CreateCampaign(request)
    with pytest.raises(InvalidField, match=r"at least 3, the overlap"):
        desks.stub.CreateCampaign(CreateCampaignRequest(name="campaigns/a", spec=crowd(annotators=2)))


def test_a_crowd_that_cannot_go_on_says_so(desks: Desks) -> None:
    heard = desks.site.server.post

    def post(user: str, path: str, body: Any) -> Any:
        raise Unavailable("no call of the crowd is heard yet")

    desks.site.server.post = post
    desks.create(crowd(annotators=3, overlap=Overlap(least=3, most=3), judgements=0))
    desks.stub.RetractAnnotator(RetractAnnotatorRequest(campaign="campaigns/a", key="s001", reason="to see it"))
    desks.site.server.post = heard
    found = desks.until(lambda found: found.state in (CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_PUBLISHED))
    assert found.state == CAMPAIGN_STATE_FAILED
    assert "12 pairs lack judgements" in found.reason


def calls(given: CampaignSpec, *, lost: int, unanswered: int) -> list[tuple[object, ...]]:
    """The calls of a crowd that had an effect, in order, if each `lost`-th one does not arrive, and the answer of each
    `unanswered`-th one is lost.
    """
    found: dict[tuple[object, ...], None] = {}
    count = itertools.count(1)
    with Simulation(0, builds={"annotation": build}, rates={}) as world:
        desks = Desks(world)

        def post(user: str, path: str, body: Any) -> Any:
            number = next(count)
            if number % lost == 0:
                raise Unavailable("the call was lost")
            answer = desks.site.answer(Principal.of_simulator(user), "POST", path, json.dumps(body).encode())
            if about := answer.get("pairs", body.get("judgements")):
                found.setdefault((user, path, *(each["id"] for each in about)))
            if number % unanswered == 0:
                raise Unavailable("the answer was lost")
            return answer

        desks.site.server.post = post
        desks.create(given)
        desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    return list(found)


def test_a_wave_that_is_interrupted_is_completed() -> None:
    given, never = crowd(pairs=60, overlap=Overlap(least=1, most=1), judgements=0), 1 << 30
    undisturbed = calls(given, lost=never, unanswered=never)
    for lost, unanswered in ((7, never), (never, 8)):
        assert calls(given, lost=lost, unanswered=unanswered) == undisturbed


def test_a_crowd_goes_on_under_another_guideline(desks: Desks) -> None:
    first = desks.create(crowd()).guideline
    desks.stub.UpdateGuideline(UpdateGuidelineRequest(name="campaigns/a", text="Prefer the longer answer."))
    found = desks.until(lambda found: found.state in (CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_PUBLISHED))
    assert (found.state, found.judgements) == (CAMPAIGN_STATE_PUBLISHED, 30)
    assert found.guideline != first


def test_simulators_call_in_simulated_campaigns_alone_and_under_their_own_names(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    lease = {"campaign": "a", "count": 1, "at": 0}
    with pytest.raises(Refused) as caught:
        desks.site.simulate("campaigns/a/annotators/ada", LEASES, lease)
    assert caught.value.reason == "NOT_SIMULATED"
    for user in ("campaigns/b/annotators/ada", "campaigns/a/annotators/", "users/ada", ""):
        with pytest.raises(NotFound):
            desks.site.simulate(user, LEASES, lease)
    for call in ("withdraw", "messages"):
        with pytest.raises(PermissionDenied):
            desks.site.simulate("campaigns/a/annotators/ada", f"/annotation/api/{call}", {"campaign": "a"})


def test_people_have_no_virtual_time(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    with pytest.raises(InvalidField, match="at: "):
        desks.call(LEASES, "ada", {"campaign": "a", "count": 1, "at": 0})


def test_simulators_have_the_limits_of_people_and_are_given_nothing_at_another_virtual_time(desks: Desks) -> None:
    desks.create(crowd())
    for path, body, field in (
        (LEASES, {"count": 9, "at": 0}, "count"),
        (LEASES, {"count": 1}, "at"),
        (LEASES, {"count": 1, "at": "0"}, "at"),
        (JUDGEMENTS, {"judgements": [{}] * 51}, "judgements"),
    ):
        with pytest.raises(InvalidField, match=f"{field}: "):
            desks.site.simulate("campaigns/a/annotators/s000", path, {"campaign": "a", **body})
    late = desks.site.simulate("campaigns/a/annotators/s000", LEASES, {"campaign": "a", "count": 8, "at": 1 << 40})
    assert late == {"pairs": [], "state": "late"}
