"""Live estimates: those that preferences of the same judgements would have, while the campaign is open."""

from typing import Any

import pytest

from tutti.annotation.campaigns.crowds_test import crowd
from tutti.annotation.campaigns.estimates import ESTIMATES, NOTHING, SPACING_SECONDS
from tutti.annotation.campaigns.importing_test import imported, line
from tutti.annotation.conftest import Desks, spec
from tutti.annotation.publishing.weighing_test import weigh
from tutti.annotation.service import build
from tutti.annotation.service_test import preferences
from tutti.chassis.store.taskrows import Task
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PUBLISHED,
    Annotator,
    CloseCampaignRequest,
    ListAnnotatorsRequest,
    ListAnnotatorsResponse,
    Overlap,
)
from tutti.simulation import Simulation
from tutti.simulation.faults import RATES

NAME = "campaigns/a"
FITTED = ("sharpness", "position", "length", "format")


def listed(desks: Desks) -> ListAnnotatorsResponse:
    return desks.world.insist(lambda: desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)))


def fitted(desks: Desks, judgements: int) -> ListAnnotatorsResponse:
    """The annotators once the estimates come from so many judgements."""
    desks.world.run(until=lambda: listed(desks).fit.judgements == judgements)
    return listed(desks)


def estimates(found: ListAnnotatorsResponse) -> list[tuple[object, ...]]:
    """The estimates of each annotator, all digits."""
    return [
        (each.key, each.weight, *(getattr(each, name).SerializeToString() for name in FITTED))
        for each in found.annotators
    ]


def ended(found: Any) -> bool:
    return bool(found.state == CAMPAIGN_STATE_PUBLISHED)


@pytest.fixture
def judged(desks: Desks) -> Desks:
    """An open campaign in which two of three annotators have judged all pairs, some of them controls."""
    desks.create(spec(pairs=12, overlap=Overlap(least=3, most=3), controls=0.4))
    desks.invite("ada", "bob", "eve")
    desks.judge_all("ada")
    while pairs := desks.lease("bob"):
        desks.deliver("bob", *(desks.said("bob", pair["id"], score=place % 3 - 1) for place, pair in enumerate(pairs)))
    return desks


def test_an_open_campaign_has_the_estimates_of_the_preferences_that_are_fitted_to_it_later(judged: Desks) -> None:
    count = sum(each.judged + each.controls for each in listed(judged).annotators)
    live = fitted(judged, count)
    assert judged.get().state == CAMPAIGN_STATE_OPEN
    assert (live.fit.preferences, live.fit.HasField("fitted_at")) == ("", True)
    ada, bob, eve = live.annotators
    assert ada.length.value < bob.length.value
    assert [each.HasField("sharpness") for each in (ada, bob, eve)] == [True, True, False]
    judged.stub.CloseCampaign(CloseCampaignRequest(name=NAME))
    judged.until(ended)
    assert preferences(judged, "one").judgements == count
    published = listed(judged)
    assert (published.fit.preferences, published.fit.judgements) == ("preferences/one", count)
    assert estimates(published) == estimates(live)
    assert published.fit.unidentified == live.fit.unidentified
    assert live.fit.unidentified[0].startswith("leanings: ")


def test_judgements_are_fitted_again_after_a_while_and_a_change_of_what_counts_at_once(desks: Desks) -> None:
    desks.create(spec(pairs=12, overlap=Overlap(least=3, most=3)))
    desks.invite("ada", "bob")
    desks.judge_all("ada")
    first = fitted(desks, 12).fit.fitted_at.ToDatetime()
    desks.judge_all("bob")
    second = fitted(desks, 24).fit.fitted_at.ToDatetime()
    assert (second - first).total_seconds() >= SPACING_SECONDS

    def of_bob() -> Annotator:
        return listed(desks).annotators[1]

    weigh(desks, "bob", 0.25)
    desks.world.run(until=lambda: of_bob().weight == 0.25)
    assert (listed(desks).fit.fitted_at.ToDatetime() - second).total_seconds() < SPACING_SECONDS


def test_a_campaign_that_closes_is_fitted_to_all_of_its_judgements_without_waiting(desks: Desks) -> None:
    desks.create(spec(pairs=6))
    desks.invite("ada", "bob")
    desks.judge_all("ada")
    fitted(desks, 6)
    desks.judge_all("bob")
    desks.stub.CloseCampaign(CloseCampaignRequest(name=NAME))
    desks.until(ended)
    found = fitted(desks, 12)
    assert found.fit.preferences == ""


def test_judgements_that_cannot_be_fitted_identify_nothing(desks: Desks) -> None:
    desks.create(spec(pairs=4))
    desks.invite("ada")
    desks.world.run(max_turns=200)
    assert not listed(desks).HasField("fit")
    pair = desks.lease("ada")[0]["id"]
    desks.deliver("ada", desks.said("ada", pair, shown_ms=9))
    desks.world.run(until=lambda: listed(desks).HasField("fit"))
    found = listed(desks)
    assert (found.fit.judgements, list(found.fit.unidentified)) == (0, [NOTHING])
    assert not found.annotators[0].HasField("sharpness")


def test_imported_judgements_have_no_live_fit(desks: Desks) -> None:
    desks.create(imported(line() + "\n"))
    desks.until(ended)
    desks.world.settle()
    assert not listed(desks).HasField("fit")


def test_a_fit_that_failed_leaves_the_last_estimates_and_is_not_the_last_one(judged: Desks) -> None:
    before = estimates(fitted(judged, sum(each.judged + each.controls for each in listed(judged).annotators)))
    (kind,) = (each for each in judged.world.lives["annotation"][0].parts.service.tasks if each.name == ESTIMATES)
    task = Task("x", ESTIMATES, NAME, b"", 1, 1, 3, 0, "", "", None)
    judged.world.peek("annotation", lambda unit: kind.on_failed(unit, task, "no memory"))
    assert estimates(listed(judged)) == before
    weigh(judged, "bob", 0.25)
    judged.world.run(until=lambda: listed(judged).annotators[1].weight == 0.25)


def test_crashes_and_replicas_do_not_change_the_estimates() -> None:
    found = []
    for replicas, rates in ((1, {}), (2, RATES)):
        with Simulation(1, builds={"annotation": build}, replicas=replicas, rates=rates) as world:
            desks = Desks(world)
            desks.create(crowd())
            desks.until(ended)
            world.settle()
            world.examine()
            found.append(listed(desks))
    calm, rough = found
    assert calm.fit.judgements == rough.fit.judgements > 0
    assert estimates(calm) == estimates(rough)
