"""Why answers ended: a cut answer stays marked from the sample to the preferences, and a crowd can judge by it."""

import json
from typing import Any

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.judging.pairs import EQUAL, Kind, pairs_of, plan
from tutti.annotation.service_test import preferences
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_SIMULATED,
    CampaignSpec,
    Overlap,
    ReadPreferencesRequest,
    SimulatedCrowd,
)
from tutti.corpus.conversations.conversations import Answer, Message, Preference, Role, from_lines

STRICT = """
utility: {terms: [{ended: true, worth: 10}]}
kinds:
  - {name: fair, share: 1, sharpness: [50, 50]}
"""


def pairs(count: int) -> CampaignSpec:
    """Pairs of a cut answer and one that ended, in either order."""
    found = list[dict[str, Any]]()
    for index in range(count):
        answers, stops, turn = ["it was cut", "it ended well"], ["tokens", "end"], -1 if index % 2 else 1
        prompt = [{"role": "user", "content": f"question {index}"}]
        found.append({"prompt": prompt, "answers": answers[::turn], "stops": stops[::turn]})
    return spec("".join(json.dumps(each) + "\n" for each in found), overlap=Overlap(least=1, most=1))


def test_annotators_see_which_answer_was_cut_and_the_preferences_say_it(desks: Desks) -> None:
    desks.create(pairs(6))
    desks.invite("ada")
    for pair in desks.lease("ada"):
        assert pair["cut"] == [answer == "it was cut" for answer in pair["answers"]]
    desks.judge_all("ada")
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    made = preferences(desks, "one")
    read = desks.world.insist(lambda: desks.stub.ReadPreferences(ReadPreferencesRequest(name=made.name)))
    found = list(from_lines(Preference, read.data))
    assert len(found) == 6
    assert all(
        dict(zip(each.answers, each.stops, strict=True)) == {"it was cut": "tokens", "it ended well": "end"}
        for each in found
    )


def test_the_property_ended_of_a_crowd_decides_between_cut_and_ended_answers(desks: Desks) -> None:
    given = pairs(6)
    given.crowd = CROWD_SIMULATED
    given.simulated.CopyFrom(SimulatedCrowd(annotators=2, crowd=STRICT))
    desks.create(given)
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    made = preferences(desks, "one")
    read = desks.world.insist(lambda: desks.stub.ReadPreferences(ReadPreferencesRequest(name=made.name)))
    assert all((each.judged == 1) == (each.stops[0] == "end") for each in from_lines(Preference, read.data))


def test_the_stop_of_a_sample_is_that_of_its_pairs_and_of_their_controls() -> None:
    prompt = (Message(Role.USER, "why?"),)
    answers = [Answer(prompt, 0, "so", (1,), "end"), Answer(prompt, 1, "becau", (2,), "tokens")]
    made = plan(pairs_of([("a", answers)]), seed=0, controls=0.5, qualifying=(), needed=1)
    stop = {each.text: each.stop for each in answers}
    for each in made.pairs:
        alike = each.kind in EQUAL or each.kind is Kind.QUALIFYING
        right = (stop[each.answers[0]],) * 2 if alike else tuple(stop[text] for text in each.answers)
        assert each.stops == right
