"""The pages of rollouts, as a browser gets them."""

from collections.abc import Iterator

import pytest
from tests.web.hosted import BUILDS, Hosted, Visitor, hosted

from tutti.checkpoints.curve import Recorder
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, CheckpointCurve, Line
from tutti.contracts.sampling.v1 import EXPERIENCE_STATE_PRUNED, Experience
from tutti.records.canonical import bytes_digest
from tutti.sampling.experiences_test import QUESTION, experience
from tutti.sampling.service import build


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    builds = {"sampling": build, "committer": BUILDS["committer"]}
    with hosted(tmp_path_factory.mktemp("platform"), builds=builds) as found:
        yield found


@pytest.fixture(scope="module")
def visitor(served: Hosted) -> Visitor:
    """After a job was seen without rollouts and has reported two iterations since; one more was removed."""
    visitor = Visitor(served.url)
    assert visitor.get("/experiences").status == 401
    visitor.log_in(served.link())
    assert "There are no rollouts yet" in visitor.get("/experiences").text
    for iteration in (2, 10):
        served.report("j", experience(iteration))
    served.plant(
        "sampling",
        Experience(name="experiences/j/0/1", job="jobs/j", iteration=1, state=EXPERIENCE_STATE_PRUNED, rollouts=4),
    )
    return visitor


def test_policies_lead_to_their_iterations_in_order(visitor: Visitor) -> None:
    (policy,) = visitor.get("/experiences.json").json["policies"]
    assert (policy["path"], policy["iterations"], policy["stored"]) == ("/experiences/j/0", 3, 2)
    assert '<a href="/experiences/j/0">jobs/j</a>' in visitor.get("/experiences").text
    view = visitor.get("/experiences/j/0.json").json
    assert [each["iteration"] for each in view["iterations"]] == [10, 2, 1]
    text = visitor.get("/experiences/j/0").text
    assert text.count("<svg") == 1 + len(view["curves"])
    assert 'href="/experiences/j/0/10"' in text
    assert 'href="/experiences/j/0/1"' not in text


def test_a_damaged_iteration_is_left_out_of_the_lists_and_named(served: Hosted, visitor: Visitor) -> None:
    damaged = "experiences/j/0/1"
    with served.damaged("sampling", damaged):
        (policy,) = (policies := visitor.get("/experiences.json").json)["policies"]
        line = visitor.get("/experiences/j/0.json").json
        assert (policy["iterations"], [each["iteration"] for each in line["iterations"]]) == (2, [10, 2])
        for found in (policies, line):
            (words,) = found["damaged"]
            assert damaged in words
        assert all(damaged in visitor.get(path).text for path in ("/experiences", "/experiences/j/0"))
        assert visitor.get("/experiences/j/0/2").status == 200


SAME, UNKNOWN = "have the same bits as those of training", "No checkpoint says how log-probabilities"


def plant_checkpoint(served: Hosted, job: str, step: int, **metrics: float) -> None:
    """Plant the newest checkpoint of a line, with these metrics in its curve."""
    told = Recorder()
    told.step(step, loss=1.0, gradient_norm=1.0, rate=1e-3, tokens=8, skipped=False)
    told.metrics(step, metrics)
    data, key = told.take().encode(), f"committer/curves/{job}-{step}"
    served.running("committer").host.blobs.put_if_absent(key, data)
    curve = CheckpointCurve(key=key, digest=bytes_digest(data), bytes=len(data), first_step=step)
    name = f"checkpoints/{job}/0/{step}"
    state = CHECKPOINT_STATE_COMMITTED
    served.plant("committer", Checkpoint(name=name, job=f"jobs/{job}", step=step, state=state, curve=curve))
    served.plant("committer", Line(name=f"lines/{job}/0", job=f"jobs/{job}", head=step))


def test_it_is_told_how_sampling_compares_with_training(served: Hosted, visitor: Visitor) -> None:
    assert UNKNOWN in visitor.get("/experiences/j/0").text
    plant_checkpoint(served, "j", 3, training_apart=0.0, clip_fraction=0.5)
    view = visitor.get("/experiences/j/0.json").json
    assert SAME in view["agreement"]
    assert (view["curves"][-1]["title"], view["curves"][-1]["points"]) == ("Training apart", [[3, 0.0]])
    assert SAME in visitor.get("/experiences/j/0").text


@pytest.mark.parametrize(("order", "first"), [("best", 1), ("worst", 2), ("longest", 2)])
def test_rollouts_of_an_iteration_are_read_in_an_order(visitor: Visitor, order: str, first: int) -> None:
    view = visitor.get(f"/experiences/j/0/2.json?order={order}").json
    assert view["rollouts"][0]["number"] - 8 == first
    assert (view["before"], view["after"]) == ("/experiences/j/0/1", "/experiences/j/0/10")
    text = visitor.get(f"/experiences/j/0/2?order={order}").text
    assert QUESTION in text
    assert f'?order={order}" aria-current="true"' in text


def test_an_iteration_that_was_removed_says_so(visitor: Visitor) -> None:
    assert "removed by the retention policy" in visitor.get("/experiences/j/0/1").text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/experiences/j/0/2?order=nicest", 400, "one of best, worst, longest, kl"),
        ("/experiences/j/0/3", 404, "experiences/j/0/3"),
        ("/experiences/j/1", 404, "experiences/j/1"),
        ("/experiences/other/0", 404, "experiences/other/0"),
    ],
)
def test_what_is_not_there_is_named(visitor: Visitor, path: str, status: int, words: str) -> None:
    answer = visitor.get(path)
    assert answer.status == status
    assert words in answer.text
