"""A campaign in a simulated world, and annotators who use its calls."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid5

import pytest
from google.protobuf.message import Message
from sqlalchemy import select

from tutti.annotation.service import build
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method, Principal
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_DRAFT,
    CROWD_PEOPLE,
    Axis,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    InviteAnnotatorRequest,
    Overlap,
    Qualification,
)
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.simulation import Simulation
from tutti.web.pages import Site

F = TypeVar("F", bound=Message)
NAMESPACE = UUID(int=7)
GUIDELINE = "Prefer the shorter answer."


def lines(count: int) -> str:
    """Pairs of a short and a long answer, as JSON lines; the short one is first in every second pair."""
    found = []
    for index in range(count):
        answers = [f"answer {index}", f"answer {index}, and much more of it"]
        prompt = [{"role": "user", "content": f"question {index}"}]
        found.append(json.dumps({"prompt": prompt, "answers": answers if index % 2 else answers[::-1]}))
    return "\n".join(found) + "\n"


def spec(pairs: int | str = 6, **changes: Any) -> CampaignSpec:
    given: dict[str, Any] = {
        "pairs": pairs if isinstance(pairs, str) else lines(pairs),
        "guideline": GUIDELINE,
        "axes": [Axis(name="helpful", rule="Which answer helps more?")],
        "crowd": CROWD_PEOPLE,
        "overlap": Overlap(least=2, most=2),
        "controls": 0.0,
        "qualification": Qualification(),
        "seed": 3,
    }
    return CampaignSpec(**given | changes)


def judgement_id(*key: object) -> str:
    return str(UUID(bytes=uuid5(NAMESPACE, repr(key)).bytes, version=4))


@dataclass
class Desks:
    """The world of one campaign at a time. `shown` has every pair that an annotator was ever given."""

    world: Simulation
    campaign: str = "a"
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def stub(self) -> AnnotationServiceStub:
        return AnnotationServiceStub(self.world.channel("annotation", Role.OPERATOR))

    def create(self, spec: CampaignSpec) -> Campaign:
        """Create the campaign, and wait until its pairs are made."""
        request = CreateCampaignRequest(request_id=self.campaign, name=f"campaigns/{self.campaign}", spec=spec)
        self.world.insist(lambda: self.stub.CreateCampaign(request))
        self.until(lambda found: found.state != CAMPAIGN_STATE_DRAFT)
        return self.get()

    def get(self) -> Campaign:
        return self.world.insist(lambda: self.stub.GetCampaign(GetRequest(name=f"campaigns/{self.campaign}")))

    def until(self, holds: Callable[[Campaign], bool]) -> Campaign:
        self.world.run(until=lambda: holds(self.get()))
        return self.get()

    def invite(self, *names: str) -> None:
        """Invite users; the key of each is the user's name without what is no letter or digit."""
        for name in names:
            request = InviteAnnotatorRequest(campaign=f"campaigns/{self.campaign}", user=f"users/{name}", key=name)
            self.world.insist(lambda request=request: self.stub.InviteAnnotator(request))  # type: ignore[misc]

    @property
    def site(self) -> Site:
        found = self.world.lives["annotation"][0].parts.service.pages
        assert isinstance(found, Site)
        return found

    def call(self, path: str, user: str, body: object = None, tenant: str = DEFAULT_TENANT, **segments: str) -> Any:
        """The answer to a call of a page's script."""
        principal = Principal(f"users/{user}", frozenset({Role.ANNOTATOR}), tenant, Method.SESSION)
        method, sent = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
        return self.site.answer(principal, method, path.format(**segments), sent)

    def state(self, user: str) -> Any:
        return self.call("/annotation/{campaign}/state.json", user, campaign=self.campaign)

    def lease(self, user: str, count: int = 8) -> Sequence[Any]:
        found = self.call("/annotation/api/leases", user, {"campaign": self.campaign, "count": count})
        self.shown.setdefault(user, {}).update({pair["id"]: pair for pair in found["pairs"]})
        return list(found["pairs"])

    def facts(self, kind: type[F]) -> list[F]:
        """The facts of a type that were committed, in order."""

        def read(unit: Unit) -> list[bytes]:
            outbox = unit.tables.outbox
            mine = select(outbox.c.payload).where(outbox.c.type == kind.DESCRIPTOR.full_name).order_by(outbox.c.seq)
            return [bytes(each) for each in unit.tx.execute(mine).scalars()]

        return [kind.FromString(each) for each in self.world.peek("annotation", read)]

    def lease_ids(self, user: str) -> list[str]:
        """Every pair that the annotator was ever given, newest first."""
        return list(self.shown[user])[::-1]

    def deliver(self, user: str, *judgements: Mapping[str, object]) -> Any:
        body = {"campaign": self.campaign, "judgements": list(judgements)}
        return self.call("/annotation/api/judgements", user, body)

    def said(self, user: str, pair: str, score: object = None, **changes: object) -> dict[str, object]:
        """A judgement as the page sends it: the shorter answer is better, unless a score is given."""
        if score is None:
            left, right = (len(answer) for answer in self.shown[user][pair]["answers"])
            score = 0 if left == right else -2 if left < right else 2
        return {
            "id": judgement_id(self.campaign, user, pair),
            "pair": pair,
            "guideline": self.get().guideline,
            "answers": {"helpful": score},
            "kind": "judged",
            "shown_ms": 4000,
            **changes,
        }

    def judge_all(self, user: str, most: int = 1000) -> int:
        """Judge what the annotator is given until there is nothing more; how many pairs."""
        count = 0
        while count < most and (pairs := self.lease(user)):
            receipt = self.deliver(user, *(self.said(user, pair["id"]) for pair in pairs))
            assert receipt["refused"] == []
            count += len(pairs)
        return count


@pytest.fixture
def desks() -> Iterator[Desks]:
    """A world without faults."""
    with Simulation(0, builds={"annotation": build}, rates={}) as world:
        yield Desks(world)
