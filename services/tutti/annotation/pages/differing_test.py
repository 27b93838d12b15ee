"""Pairs on which a reward model and those who judged differ: what is shown if evaluation does not answer in time."""

from dataclasses import replace

import pytest

from tutti.annotation.conftest import Desks
from tutti.annotation.pages.differing import SECONDS, Evaluation
from tutti.chassis.rpc.local import LocalChannel
from tutti.contracts.evaluation.v1 import ListComparisonsResponse


def test_an_evaluation_that_is_away_is_named(desks: Desks) -> None:
    host = desks.world.lives["annotation"][0].parts.host
    assert Evaluation(host).compared("campaigns/a") == ([], ["evaluation did not answer: evaluation is down"])


def test_an_evaluation_that_answers_page_after_page_is_asked_for_so_long_and_no_longer(desks: Desks) -> None:
    clock, timeouts = desks.world.clock, list[float]()

    def answer(path: str, request: object, seconds: float) -> object:
        timeouts.append(seconds)
        clock.advance(SECONDS / 2)
        return ListComparisonsResponse(next_page_token="more")  # noqa: S106 - the token of a page

    host = desks.world.lives["annotation"][0].parts.host
    slow = replace(host, channels=lambda service: LocalChannel(answer, lambda path, request: iter(())))  # type: ignore[type-var]
    found, missing = Evaluation(slow).compared("campaigns/a")
    assert found == []
    assert timeouts == pytest.approx([SECONDS, SECONDS / 2])
    assert missing == ["evaluation did not answer: the answers take longer than 3 s; load the page again"]
