"""The calls about answers, in a world that crashes, repeats and loses answers by seed."""

from collections.abc import Iterator

import pytest

from tutti.access.service import build
from tutti.access.settings import AccessSettings
from tutti.chassis.errors import AlreadyExists, InvalidField, PermissionDenied, Refused
from tutti.chassis.identity.auth import Role
from tutti.contracts.access.v1 import (
    LIMIT_CONCURRENT,
    LIMIT_TOKENS,
    DisableUserRequest,
    IssueTokenRequest,
    ListUsageRequest,
    RenewRequest,
    ReserveRequest,
    ReserveResponse,
    RevokeTokenRequest,
    SettleRequest,
    Spent,
    Usage,
)
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.simulation import Simulation

CLIENT, ENGINEER = "users/client", "users/engineer"
TOKEN, OTHER = "a" * 64, "b" * 64
DEFAULTS = AccessSettings()
LEASE_SECONDS = 30


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(request.param, builds={"access": build}) as simulation:
        yield simulation


class Router:
    """Calls of a router, which are repeated until they are answered, and of an operator."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._service = AccessServiceStub(world.channel("access", Role.SERVICE))
        self._operator = AccessServiceStub(world.channel("access", Role.OPERATOR))
        for user, token in ((CLIENT, TOKEN), (ENGINEER, OTHER)):
            issued = IssueTokenRequest(user=user, token_digest=token)
            world.insist(lambda issued=issued: self._operator.IssueToken(issued))  # type: ignore[misc]

    def reserve(
        self, id: str, most: int = 90, user: str = CLIENT, token: str = TOKEN, choices: int = 1
    ) -> ReserveResponse:
        asked = {"id": id, "user": user, "credential": token, "prompt_tokens": 10, "most_tokens": most}
        request = ReserveRequest(**asked, completions=choices)  # type: ignore[arg-type]
        return self._world.insist(lambda: self._service.Reserve(request))

    def renew(self, id: str, released: int = 0) -> dict[str, str]:
        spent = Spent(id=id, prompt_tokens=10, released_tokens=released, computed_tokens=released)
        return dict(self._world.insist(lambda: self._service.Renew(RenewRequest(running=[spent]))).ended)

    def settle(self, id: str, released: int, computed: int) -> None:
        spent = Spent(id=id, prompt_tokens=10, released_tokens=released, computed_tokens=computed)
        self._world.insist(lambda: self._service.Settle(SettleRequest(ended=[spent])))

    def usage(self) -> list[tuple[str, int, int, int]]:
        found: list[Usage] = list(self._world.insist(lambda: self._operator.ListUsage(ListUsageRequest())).usage)
        return [(each.token, each.requests, each.prompt_tokens, each.completion_tokens) for each in found]

    def revoke(self) -> None:
        self._world.insist(lambda: self._operator.RevokeToken(RevokeTokenRequest(id=TOKEN[:16])))

    def disable(self, user: str) -> None:
        self._world.insist(lambda: self._operator.DisableUser(DisableUserRequest(name=user)))


@pytest.fixture
def calm() -> Iterator[Simulation]:
    """A world without faults, in which time passes only as a test says, or while it takes turns."""
    with Simulation(0, builds={"access": build}, rates={}) as simulation:
        yield simulation


@pytest.fixture
def router(world: Simulation) -> Router:
    return Router(world)


def test_limits_count_what_was_computed_and_usage_what_was_released(router: Router) -> None:
    tokens = DEFAULTS.answer_tokens_per_minute
    assert router.reserve("a", most=tokens - 10).tokens.remaining == 0
    refused = router.reserve("b")
    assert (refused.refused_by, refused.retry_ms > 0) == (LIMIT_TOKENS, True)
    assert router.reserve("c", user=ENGINEER, token=OTHER).refused_by == 0
    for _ in range(2):  # the same end again changes nothing
        router.settle("a", released=20, computed=50)
    assert router.reserve("b").refused_by == 0
    assert router.usage() == [(TOKEN[:16], 2, 10, 20), (OTHER[:16], 1, 0, 0)]


def test_an_answer_that_is_reserved_again_is_charged_once_and_not_after_its_end(router: Router) -> None:
    first, again = router.reserve("a"), router.reserve("a")
    assert first.concurrent.remaining == again.concurrent.remaining == DEFAULTS.concurrent_answers - 1
    with pytest.raises(AlreadyExists):
        router.reserve("a", most=91)
    router.settle("a", released=1, computed=1)
    with pytest.raises(Refused) as refused:
        router.reserve("a")
    assert refused.value.reason == "RESERVATION_ENDED"
    assert router.renew("a") == {"a": "RESERVATION_ENDED"}
    assert router.renew("unknown") == {"unknown": "RESERVATION_ENDED"}
    assert router.usage()[0][1] == 1


def test_answers_at_the_same_time_are_limited_until_one_ends(calm: Simulation) -> None:
    router = Router(calm)
    for number in range(DEFAULTS.concurrent_answers):
        assert router.reserve(f"{number}").refused_by == 0
    assert router.reserve("more").refused_by == LIMIT_CONCURRENT
    router.settle("0", released=0, computed=0)
    assert router.reserve("more").refused_by == 0


def test_each_choice_of_a_request_is_an_answer_at_the_same_time(calm: Simulation) -> None:
    router, most = Router(calm), DEFAULTS.concurrent_answers
    for _ in range(2):  # the same reservation again holds no more
        assert router.reserve("several", choices=most - 1).concurrent.remaining == 1
    assert router.reserve("two", choices=2).refused_by == LIMIT_CONCURRENT
    assert router.reserve("one").concurrent.remaining == 0
    router.settle("several", released=0, computed=0)
    assert router.reserve("two", choices=2).concurrent.remaining == most - 3
    assert router.usage() == [(TOKEN[:16], 3, 10, 0)]
    with pytest.raises(InvalidField) as refused:
        router.reserve("never", choices=most + 1)
    assert refused.value.field == "completions"


def test_a_lease_that_is_not_renewed_ends_at_its_known_cost_and_a_late_end_adds_the_rest(calm: Simulation) -> None:
    router = Router(calm)
    router.reserve("renewed")
    router.reserve("abandoned")
    assert router.renew("abandoned", released=7) == {}
    for _ in range(3):
        calm.clock.advance(LEASE_SECONDS / 2)
        assert router.renew("renewed", released=3) == {}
    calm.run(until=lambda: router.usage() == [(TOKEN[:16], 2, 10, 7)], every=1)
    assert router.reserve("more").concurrent.remaining == DEFAULTS.concurrent_answers - 2
    router.settle("abandoned", released=9, computed=9)
    assert router.usage() == [(TOKEN[:16], 3, 10, 9)]


def test_a_token_that_is_not_valid_reserves_nothing_and_ends_its_answers(router: Router) -> None:
    router.reserve("a")
    router.reserve("b", user=ENGINEER, token="")
    router.revoke()
    router.disable(ENGINEER)
    assert router.renew("a") == {"a": "TOKEN_REFUSED"}
    assert list(router.renew("b")) == ["b"]
    for token, user in ((TOKEN, CLIENT), ("c" * 64, CLIENT), (OTHER, CLIENT), ("", ENGINEER), ("", "users/none")):
        with pytest.raises(Refused):
            router.reserve("c", user=user, token=token)


def test_requests_without_sense_are_refused_by_field(world: Simulation, router: Router) -> None:
    service = AccessServiceStub(world.channel("access", Role.SERVICE))
    good = {"id": "a", "user": CLIENT, "credential": TOKEN, "most_tokens": 1}
    wrong = {"id": "", "user": "ada", "credential": "short", "most_tokens": DEFAULTS.answer_tokens_per_minute + 1}
    for field, value in wrong.items():
        request = ReserveRequest(**{**good, field: value})  # type: ignore[arg-type]
        with pytest.raises(InvalidField) as refused:
            world.insist(lambda request=request: service.Reserve(request))  # type: ignore[misc]
        assert refused.value.field in (field, "name")
    with pytest.raises(InvalidField):
        world.insist(lambda: service.Renew(RenewRequest(running=[Spent(id="a", computed_tokens=2**63)])))
    operator = AccessServiceStub(world.channel("access", Role.OPERATOR))
    for usage in (ListUsageRequest(since="today"), ListUsageRequest(since="2026-13-01"), ListUsageRequest(user="x")):
        with pytest.raises(InvalidField):
            world.insist(lambda usage=usage: operator.ListUsage(usage))  # type: ignore[misc]


def test_usage_of_others_is_for_operators(world: Simulation, router: Router) -> None:
    router.reserve("a")
    engineer = AccessServiceStub(world.channel("access", Role.ENGINEER))
    assert list(world.insist(lambda: engineer.ListUsage(ListUsageRequest())).usage) == []
    with pytest.raises(PermissionDenied):
        world.insist(lambda: engineer.ListUsage(ListUsageRequest(user=CLIENT)))
