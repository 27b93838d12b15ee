"""The chat service: checkpoints answer requests of programs, and every answer has a record.

Promises: a deployment serves until it is stopped; no token is sent before it is in the journal; every answer that
was sent is computed again from its record while its request is kept.
"""

from datetime import timedelta
from pathlib import Path

from tutti.backbone import Isolation, uuid7
from tutti.chassis.rpc import standard
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.unit import Unit, Units
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings
from tutti.chat.completions import ROLES, Completions
from tutti.chat.generations import KEPT
from tutti.chat.journal import Journal
from tutti.chat.leases import Leases
from tutti.chat.pages.pages import ChatPages
from tutti.chat.requests import SEEDS
from tutti.chat.rpc import ChatApi
from tutti.chat.serving import Deployments
from tutti.chat.tables import Tables
from tutti.chat.tokenizing import Tokenizing
from tutti.chat.turns import Turns
from tutti.contracts.access.v1 import User
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.chat.v1.chat_pb2 import DESCRIPTOR
from tutti.web.pages import Site

PRUNE_SECONDS = timedelta(hours=1).total_seconds()


class Pruner:
    """A Loop that deletes the requests, the token ids and the idempotency keys of old answers."""

    def __init__(self, units: Units, tables: Tables) -> None:
        self.name, self.interval = "chat journal pruner", PRUNE_SECONDS
        self._units, self._tables = units, tables

    def step(self) -> bool:
        def prune(unit: Unit) -> None:
            self._tables.generations.prune(unit, unit.now - KEPT)
            self._tables.keys.prune(unit, unit.now - KEPT)

        self._units.run(prune, isolation=Isolation.READ_COMMITTED)
        return False


def build(host: Host) -> Service:
    tables = Tables(host.metadata)
    leases = Leases(AccessServiceStub(host.channel("access")))
    deployments = Deployments(host, tables, leases)

    def name() -> str:
        return uuid7(host.clock, host.randomness)

    answers = Answers(host.units, tables, deployments.models, name)

    def seed() -> int:
        return host.randomness.bits(SEEDS.bit_length() - 1)

    journal = Journal(answers.commit)
    beginnings = Beginnings(journal, leases, name=name, seed=seed)
    completions = Completions(
        deployments.models,
        journal,
        beginnings,
        answers,
        now=lambda: int(host.clock.now().timestamp()),
        refusal=deployments.refusal,
    )
    apis = [*completions.routes(), *Tokenizing(deployments.models).routes(ROLES)]
    turns = Turns(host.units, tables, deployments.models, beginnings, answers, name=name)
    pages = ChatPages(host, tables, turns, answers, deployments.models)
    api = ChatApi(host, tables, deployments.reconciler, answers)

    return Service(
        name="chat",
        reads=["committer", "ingest", "tokenization", "trainer"],
        resources=[tables.deployments, tables.answers],
        consumes=[Consumed(User, tables.on_users)],
        tables=[*tables.generations.tables, *tables.conversations.tables, tables.keys.table, tables.reports.table],
        serves=[
            standard.served(
                DESCRIPTOR.services_by_name["ChatService"],
                api,
                standard.Stored(host.units, tables.deployments, deployments.told),
                standard.Stored(host.units, tables.answers),
            )
        ],
        loops=[deployments.reconciler, Pruner(host.units, tables)],
        migrations=Path(__file__).with_name("migrations"),
        pages=Site("chat", "tutti.chat.pages", [*apis, *pages.routes], pages.menu),
        holds=lambda unit, key, principal: False,
    )
