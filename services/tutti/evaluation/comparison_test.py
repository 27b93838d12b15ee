"""The work comparison, in a world that crashes, repeats and reorders by seed."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobsUnavailable
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host, Service
from tutti.chassis.work.work import publish, put_named, served_work
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest, ListRequest
from tutti.contracts.evaluation.v1 import (
    ComparedSample,
    Comparison,
    ComparisonSpec,
    CreateComparisonRequest,
    JudgedSet,
    ReadComparisonRequest,
)
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub
from tutti.corpus.conversations.conversations import to_lines
from tutti.corpus.conversations.conversationset import Lines
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.evaluation.comparing_test import answers, best, worse
from tutti.evaluation.comparison import check, work
from tutti.evaluation.differing import DifferingPairs
from tutti.records.canonical import JsonValue, bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.simulation import Simulation
from tutti.staging import linefiles

CROWD = '{"utility": "letters@1"}'
HOSTS: list[Host] = []
T = TypeVar("T")


def build(host: Host) -> Service:
    """A service that does this work alone."""
    HOSTS[:] = [host]
    made = work(host)
    return Service(
        name="evaluation",
        resources=[made.resource],
        serves=[served_work(made, check, DifferingPairs(host, made))],
        tasks=[made.task()],
    )


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(request.param, builds={"evaluation": build}) as simulation:
        yield simulation


def put(store: Callable[[], T]) -> T:
    """What is stored while the store sometimes does not answer."""
    for _ in range(100):
        with contextlib.suppress(BlobsUnavailable):
            return store()
    raise AssertionError("the store did not answer a hundred times")


def stored(blobs: Blobs, name: str, write: Callable[[str], str], count: int = 20) -> ComparedSample:
    """A sample of answers, as sampling stores one."""
    lines = to_lines(answers(write, count))
    key = put_named(blobs, "sampling/answers", lines, ".jsonl")
    body = {"lines": Lines(key, bytes_digest(lines), len(lines), count).to_json()}
    made = publish(blobs, "sampling", Manifest(Kind.SAMPLE, body, (), "tutti.sampling test"), data_bytes=0)
    return ComparedSample(name=f"samples/{name}", manifest_key=made.manifest_key, content_digest=made.content_digest)


def spec(candidates: int = 20) -> ComparisonSpec:
    blobs = HOSTS[0].blobs
    return ComparisonSpec(
        baseline=put(lambda: stored(blobs, "baseline", worse)),
        candidate=put(lambda: stored(blobs, "candidate", best, candidates)),
        crowd=CROWD,
        annotators=10,
        overlap=2,
    )


def test_a_comparison_is_made_once_and_has_the_same_content_under_another_name(world: Simulation) -> None:
    stub, asked = ComparisonServiceStub(world.channel("evaluation")), spec()
    for name in ("comparisons/a", "comparisons/b"):
        create = CreateComparisonRequest(request_id=name, name=name, spec=asked)
        for _ in range(2):
            world.insist(lambda: stub.CreateComparison(create))  # noqa: B023
    world.settle()
    first, second = world.insist(lambda: stub.ListComparisons(ListRequest())).comparisons
    assert (first.state, second.state) == (STATE_DONE, STATE_DONE), first.reason
    assert first.result.content_digest == second.result.content_digest
    assert (first.pairs, first.judgements, first.better) == (20, 40, 1.0)
    assert first.wins.low > 0.5
    assert world.insist(lambda: stub.GetComparison(GetRequest(name="comparisons/a"))) == first
    world.examine()


def test_a_comparison_without_a_reward_model_has_no_pairs_on_which_one_differs(world: Simulation) -> None:
    found = compared(world, spec())
    assert found.state == STATE_DONE, found.reason
    stub = ComparisonServiceStub(world.channel("evaluation"))
    with pytest.raises(Refused, match="has no reward model; give the stage one as `reward`"):
        world.insist(lambda: stub.ReadComparison(ReadComparisonRequest(name=found.name)))


def judgements(write: Callable[[str], str], other: Callable[[str], str]) -> JudgedSet:
    """What a campaign publishes in which two people prefer the second answer of each pair."""
    blobs, lines, said = HOSTS[0].blobs, [], []
    for one, two in zip(answers(write, 20), answers(other, 20), strict=True):
        lines.append(PairLine(one.number, "ordinary", one.prompt, (one.text, two.text)))
        said += [JudgementLine(one.number, who, "g", who == "a", {"helpful": 1}) for who in ("a", "b")]
    body: dict[str, JsonValue] = {
        "axes": [{"name": "helpful", "rule": ""}],
        "lines": linefiles.write(blobs, "annotation/lines", said).to_json(),
        "pairs": linefiles.write(blobs, "annotation/lines", lines).to_json(),
        "simulated": False,
    }
    made = publish(blobs, "annotation", Manifest(Kind.JUDGEMENTS, body, (), "tutti.annotation test"), data_bytes=0)
    return JudgedSet(campaign="campaigns/c", manifest_key=made.manifest_key, content_digest=made.content_digest)


def compared(world: Simulation, asked: ComparisonSpec) -> Comparison:
    stub = ComparisonServiceStub(world.channel("evaluation", Role.SERVICE))
    create = CreateComparisonRequest(request_id="a", name="comparisons/a", spec=asked)
    world.insist(lambda: stub.CreateComparison(create))
    world.settle()
    return world.insist(lambda: stub.GetComparison(GetRequest(name="comparisons/a")))


def test_people_compare_in_a_campaign(world: Simulation) -> None:
    samples = spec()
    asked = ComparisonSpec(
        baseline=samples.baseline, candidate=samples.candidate, judged=put(lambda: judgements(worse, best))
    )
    found = compared(world, asked)
    assert (found.state, found.reason) == (STATE_DONE, "")
    assert (found.pairs, found.judgements, found.simulated, found.unjudged) == (20, 40, False, 0)
    assert found.wins.mean == 1.0
    assert list(found.utilities) == []


def test_a_campaign_over_other_answers_fails_it_with_the_reason(world: Simulation) -> None:
    samples = spec()
    asked = ComparisonSpec(
        baseline=samples.baseline, candidate=samples.candidate, judged=put(lambda: judgements(str.upper, str.lower))
    )
    found = compared(world, asked)
    assert found.state == STATE_FAILED
    assert "campaigns/c: no judgement on the axis 'helpful'" in found.reason


def test_a_crowd_beside_a_campaign_is_refused(world: Simulation) -> None:
    asked = spec()
    asked.judged.campaign = "campaigns/c"
    with pytest.raises(InvalidField, match=r"spec\.crowd: expected nothing"):
        check(asked)
    asked.judged.campaign = ""
    with pytest.raises(InvalidField, match=r"spec\.judged\.campaign"):
        check(asked)


def test_answers_to_other_prompts_fail_it_with_the_reason(world: Simulation) -> None:
    stub = ComparisonServiceStub(world.channel("evaluation"))
    create = CreateComparisonRequest(request_id="a", name="comparisons/a", spec=spec(candidates=19))
    world.insist(lambda: stub.CreateComparison(create))
    world.settle()
    found = world.insist(lambda: stub.GetComparison(GetRequest(name="comparisons/a")))
    assert (found.state, found.reason.partition(";")[0]) == (
        STATE_FAILED,
        "1 of 20 prompts have answers of one side alone",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("crowd", "utility: beauty"), ("crowd", ""), ("annotators", 1), ("overlap", 11), ("seed", 2**53)],
)
def test_what_cannot_work_is_refused_by_field(world: Simulation, field: str, value: object) -> None:
    asked = spec()
    setattr(asked, field, value)
    with pytest.raises(InvalidField, match=rf"spec\.{field}"):
        check(asked)
    asked.ClearField("candidate")
    with pytest.raises(InvalidField, match=r"spec\.candidate"):
        check(asked)
