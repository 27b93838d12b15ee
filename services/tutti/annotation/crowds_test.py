"""Simulated crowds: they need no browser, survive crashes, and judge what they would have judged."""

from typing import Any

import pytest

from tutti.annotation.campaigns import CROWDS
from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service import build
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.simulation import Simulation
from tutti.chassis.tasks import Retry
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_SIMULATED,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    Overlap,
    PauseCampaignRequest,
    Qualification,
    ResumeCampaignRequest,
    RetractAnnotatorRequest,
    SimulatedCrowd,
)

CROWD = """
utility: letters@1
kinds:
  - {name: fair, share: 0.8, sharpness: [1.5, 3.5]}
  - {name: random, share: 0.2, sharpness: [0, 0]}
"""


def crowd(annotators: int = 5, text: str = CROWD, **changes: Any) -> CampaignSpec:
    given: dict[str, Any] = {
        "crowd": CROWD_SIMULATED,
        "simulated": SimulatedCrowd(annotators=annotators, crowd=text),
        "overlap": Overlap(least=1, most=3),
        "controls": 0.2,
        "judgements": 30,
        "qualification": Qualification(pairs=2, right=2),
    }
    return spec(pairs=12, **given | changes)


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
    desks.create(crowd(annotators=3, overlap=Overlap(least=3, most=3), judgements=0))
    desks.stub.PauseCampaign(PauseCampaignRequest(name="campaigns/a"))
    desks.stub.RetractAnnotator(RetractAnnotatorRequest(campaign="campaigns/a", key="s001", reason="to see it"))
    desks.stub.ResumeCampaign(ResumeCampaignRequest(name="campaigns/a"))
    found = desks.until(lambda found: found.state in (CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_PUBLISHED))
    assert found.state == CAMPAIGN_STATE_FAILED
    assert "12 pairs lack judgements" in found.reason


def test_a_round_that_began_just_when_nobody_was_given_a_pair_is_judged(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    service = desks.world.lives["annotation"][0].parts.service
    (crowds,) = (each.on_failed.__self__ for each in service.tasks if each.name == CROWDS)  # type: ignore[attr-defined]
    with pytest.raises(Retry):
        crowds._wait("campaigns/a")
    desks.judge_all("ada")
    assert desks.get().state != CAMPAIGN_STATE_FAILED
