"""Turns whose answers run nowhere any more, in a real database."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import MetaData
from tests import talks

from tutti.backbone import SeededRandomness
from tutti.backbone.clock import ManualClock
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.store.unit import Unit, Units
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings
from tutti.chat.conversations import FAILED
from tutti.chat.conversations_test import ADA, turn
from tutti.chat.journal import Begun, Journal, Said
from tutti.chat.leases import Leases
from tutti.chat.models import Model
from tutti.chat.requests import read
from tutti.chat.routing import Router
from tutti.chat.saying import Served
from tutti.chat.tables import Tables
from tutti.chat.turns import LOST, Turns
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.corpus.conversations.template import CHAT_1

TEXT = "a b c"


class Restarted:
    """A service that has just started, over the rows that an earlier one left."""

    def __init__(self) -> None:
        metadata, clock, ids = MetaData(), ManualClock(), itertools.count()
        self.tables = Tables(metadata)
        self.database = EmbeddedDatabase(None, clock=clock, inline=True)
        self.units = Units(self.database, "chat", metadata, clock=clock, randomness=SeededRandomness(1))
        self.database.create(metadata)
        served = Served("blake3:a", 256, talks.TOKENIZER, CHAT_1.bind(talks.TOKENIZER))
        model = Model("toy", "deployments/toy", "checkpoints/a/0/1", 0, served, Router(connection_of_loop, ""), "s")
        self.models = [model]
        leases = Leases(AccessServiceStub(RpcChannel(lambda: "127.0.0.1:1", token="")))
        self.turns = Turns(
            self.units,
            self.tables,
            lambda: self.models,
            Beginnings(Journal(lambda entries: None), leases, name=lambda: f"{next(ids)}", seed=lambda: 7),
            Answers(self.units, self.tables, lambda: self.models, lambda: f"{next(ids)}"),
            name=lambda: f"{next(ids)}",
        )

    def leave(self, ident: str) -> None:
        """An answer that had begun to say TEXT."""
        request = read({"model": "toy", "messages": [{"role": "user", "content": "Hello"}]})
        name = f"answers/{ident}"
        said, answer = turn(ident)
        tokens = next(iter(talks.TOKENIZER.encode_all([TEXT]))).tolist()

        def write(unit: Unit) -> None:
            begun = Begun(name, ADA.user, ADA.tenant, "deployments/toy", "checkpoints/a/0/1", request, 7)
            self.tables.conversations.begin(unit, ADA, ident, "Hello")
            self.tables.conversations.add(unit, ADA, ident, 0, [said, replace(answer, model="toy")], {})
            self.tables.generations.begin(unit, [begun])
            self.tables.generations.add(unit, [Said(name, at, token) for at, token in enumerate(tokens)])

        self.units.run(write)


@pytest.fixture
def restarted() -> Iterator[Restarted]:
    made = Restarted()
    yield made
    made.database.close()


def test_an_answer_that_ended_with_its_process_is_shown_as_failed_with_what_was_journaled(restarted: Restarted) -> None:
    restarted.leave("c")
    for _ in range(2):
        found = restarted.turns.shown(ADA, "c")
        last = found.messages[-1]
        assert (last.state, last.reason, last.text) == (FAILED, LOST, TEXT)
        assert found.conversation.revision == 2
