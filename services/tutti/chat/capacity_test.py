"""The number of answers that may be in progress."""

import pytest
from tests import talks

from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import Unavailable
from tutti.chat.capacity import Capacity
from tutti.chat.models import Model
from tutti.chat.replica.program import WAITING
from tutti.chat.routing import Router
from tutti.chat.saying import Served
from tutti.corpus.conversations.template import CHAT_1

CHOICES = 128


def model(name: str, streams: int) -> Model:
    served = Served("blake3:a", 256, talks.TOKENIZER, CHAT_1.bind(talks.TOKENIZER))
    router = Router(connection_of_loop, "")
    return Model(name, f"deployments/{name}", "checkpoints/a/0/1", 0, served, router, "", streams=streams)


def taken(capacity: Capacity, of: Model, count: int) -> int:
    """The number of requests for `count` choices that begin before one is refused."""
    for number in range(10**6):
        try:
            capacity.take(of, count)
        except Unavailable:
            return number
    raise AssertionError("all began")


@pytest.mark.parametrize("streams", [1, 32, 1024])
def test_no_more_answers_wait_than_are_made_at_once_or_than_a_replica_accepts(streams: int) -> None:
    capacity, one, another = Capacity(), model("one", streams), model("another", streams)
    count = taken(capacity, one, 1)
    assert streams < count <= 2 * streams
    with pytest.raises(Unavailable):
        capacity.check(one)
    assert taken(capacity, another, CHOICES) * CHOICES <= streams + WAITING


def test_as_many_begin_as_have_ended() -> None:
    capacity, one = Capacity(), model("one", 4)
    count = taken(capacity, one, 1)
    capacity.free(one, 3)
    assert (count, taken(capacity, one, 1)) == (8, 3)
