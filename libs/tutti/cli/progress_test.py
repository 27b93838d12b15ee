"""What is told of a job while it trains: each thing that happened, once."""

from tutti.cli.progress import Past
from tutti.contracts.scheduler.v1 import Job

FIRST, LOST, SECOND = "epoch 1: 2 ranks", "epoch 1: rank 0 lost", "epoch 2: 2 ranks"


def test_why_an_epoch_ended_is_told_once() -> None:
    past = Past()
    assert past.news(Job()) == []
    assert past.news(Job(history=[FIRST])) == [FIRST]
    assert past.news(Job(history=[FIRST])) == []
    assert past.news(Job(history=[FIRST, LOST, SECOND])) == [LOST, SECOND]


def test_a_history_that_forgot_its_oldest_lines_is_told_from_where_it_was_left() -> None:
    past = Past()
    past.news(Job(history=[FIRST, LOST]))
    assert past.news(Job(history=[LOST, SECOND])) == [SECOND]
    assert past.news(Job(history=["epoch 40: 2 ranks"])) == ["epoch 40: 2 ranks"]
