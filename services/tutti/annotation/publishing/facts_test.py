"""The facts of annotation: each is emitted once, with what it is about, whatever fails."""

import pytest
from sqlalchemy import func, select

from tutti.annotation.campaigns.crowds_test import crowd
from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service import build
from tutti.annotation.service_test import preferences
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    AnnotatorRetracted,
    JudgementsAccepted,
    ListAnnotatorsRequest,
    PreferencesPublished,
    RetractAnnotatorRequest,
)
from tutti.simulation import Simulation

NAME = "campaigns/a"


@pytest.mark.parametrize("seed", range(2))
def test_each_fact_is_emitted_once_whatever_fails(seed: int) -> None:
    with Simulation(seed, builds={"annotation": build}) as world:
        desks = Desks(world)
        desks.create(crowd())
        campaign = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
        fitted = preferences(desks, "one")
        for _ in range(2):
            request = RetractAnnotatorRequest(campaign=NAME, key="s001", reason="to see it")
            world.insist(lambda: desks.stub.RetractAnnotator(request))  # noqa: B023
        world.settle()
        world.examine()
        table = world.lives["annotation"][0].parts.host.metadata.tables["judgements"]
        count = select(func.count()).select_from(table)
        accepted = desks.facts(JudgementsAccepted)
        assert sum(each.judged for each in accepted) == world.peek(
            "annotation", lambda unit: unit.tx.execute(count).scalar_one()
        )
        assert all(each.judged and each.simulated and not each.imported for each in accepted)
        assert len({each.digest for each in accepted}) == len(accepted)
        assert {each.round for each in accepted} == set(range(campaign.round + 1))
        annotators = world.insist(lambda: desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME))).annotators
        (gone,) = (each for each in annotators if each.key == "s001")
        judged = gone.judged + gone.controls
        assert desks.facts(AnnotatorRetracted) == [
            AnnotatorRetracted(campaign=NAME, annotator="s001", judgements=judged)
        ]
        assert desks.facts(PreferencesPublished) == [
            PreferencesPublished(
                preferences=fitted.name,
                content_digest=fitted.result.content_digest,
                judgement_sets=[campaign.result.content_digest],
                pairs=fitted.pairs,
                judgements=fitted.judgements,
                annotators=fitted.annotators,
                simulated=True,
            )
        ]


def test_only_new_judgements_are_in_the_fact_of_a_delivery(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    first, second, third = (desks.said("ada", pair["id"]) for pair in desks.lease("ada", 3))
    desks.deliver("ada", first)
    desks.deliver("ada", first, {"id": "1"})  # the first is known, the other one refused
    desks.deliver("ada", first, second, second, third | {"kind": "flagged", "answers": {}, "reason": "unclear"})
    found = desks.facts(JudgementsAccepted)
    assert [(each.judged, each.skipped, each.flagged, each.simulated) for each in found] == [
        (1, 0, 0, False),
        (1, 0, 1, False),
    ]
