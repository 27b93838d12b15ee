"""What is told of a job while it trains: each thing that happened, once."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tutti.cli.advance import Rate, StepRate, far, left, speed
from tutti.cli.progress import LiveView, Past, _view, follow, tokens_of_step, training_words
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, Progress
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job, JobSpec

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


def test_a_speed_is_that_of_the_newest_seconds() -> None:
    rate = Rate(seconds=10)
    assert rate.of(0, 0) == 0
    assert rate.of(5, 50) == 10
    assert rate.of(10, 100) == 10
    assert rate.of(20, 100) == 0  # nothing happened in the last ten
    assert rate.of(30, 300) == 20
    assert rate.of(31, 40) == 0  # gone back to a checkpoint
    assert rate.of(33, 60) == 10


def test_a_pause_of_a_training_does_not_count_as_its_speed() -> None:
    rate = StepRate()
    assert [rate.of(0, 10), rate.of(1, 12)] == [0, 2]
    for second in range(2, 10):
        assert rate.of(second, 10 + 2 * second) == 2
    assert rate.of(90, 28) == 2  # held-out text is measured
    assert rate.of(100, 30) == 2  # and the first steps after it were seen late
    assert rate.of(101, 32) == 2


def test_a_training_that_goes_on_from_a_checkpoint_is_measured_anew() -> None:
    rate = StepRate()
    for second in range(5):
        rate.of(second, 10 * second)
    assert rate.of(5, 20) == 0
    assert rate.of(6, 21) == 1


@given(st.lists(st.tuples(st.floats(0.01, 1e4), st.integers(1, 1000)), min_size=1, max_size=60))
def test_a_speed_is_one_that_was_seen(looks: list[tuple[float, int]]) -> None:
    rate, now, step = StepRate(), 0.0, 0
    rate.of(now, step)
    for seconds, steps in looks:
        now, step = now + seconds, step + steps
        found = rate.of(now, step)
    assert any(found == pytest.approx(steps / seconds, rel=1e-3) for seconds, steps in looks)


def test_how_far_a_stage_is_stands_in_its_unit() -> None:
    documents = Progress(done=1_200, total=3_400, unit="documents")
    assert (far(documents), speed(documents, 250.4), speed(documents, 0)) == ("1,200/3,400", "250 documents/s", "")
    assert far(Progress(done=5 << 18, total=2 << 20, unit="bytes")) == "1.2 MiB/2.0 MiB"


def test_how_long_it_takes_stands_in_round_numbers() -> None:
    steps = Progress(done=40, total=100)
    assert [left(steps, rate) for rate in (2.0, 0.5, 0.01, 0.001, 100.0)] == [
        "30 s left", "2 min left", "2 h left", "17 h left", "1 s left",
    ]  # fmt: skip
    assert (left(steps, 0), left(Progress(done=3), 1.0), left(Progress(done=9, total=9), 1.0)) == ("", "", "")


def test_a_job_says_what_it_does_or_what_it_waits_for() -> None:
    assert training_words(Job(reason="waits for 2 ranks to start"), 0.0) == "waits for 2 ranks to start"
    job = Job(step=7, loss=1.25)
    job.shape.data_parallel = 2
    assert training_words(job, 4096.0) == "loss 1.2500  4,096 tokens/s  2 ranks"
    job.skipped, job.skipped_in_a_row = 5, 4
    assert training_words(job, 0.0) == "the last 4 steps were skipped, 5 in all (loss 1.2500 before)  2 ranks"
    job.skipped, job.skipped_in_a_row = 1, 0
    assert training_words(job, 0.0) == "loss 1.2500  1 step skipped  2 ranks"
    training = {"model": {"context": 256}, "step": {"leaves": 8, "rows": 2}}
    assert tokens_of_step(Job(spec=JobSpec(training=json.dumps(training)))) == 4096
    assert tokens_of_step(Job()) == 0


def test_every_stage_has_a_line_from_the_start() -> None:
    job = Job(name="jobs/j", step=3, loss=2.5, spec=JobSpec(steps=8))
    job.shape.data_parallel = 1
    known = {"crawl": Progress(done=30, total=40, unit="URLs"), "index": Progress(done=24 << 19, unit="bytes")}
    run = Run(
        stages=[
            Stage(name="crawl", state=STATE_RUNNING, resource="crawls/c"),
            Stage(name="ingest", state=STATE_DONE, content_digest="blake3:" + "0" * 64),
            Stage(name="dedup"),
            Stage(name="index", state=STATE_RUNNING, resource="indexes/i"),
            Stage(name="train", state=STATE_RUNNING, resource="jobs/j"),
        ]
    )
    console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    with _view(console) as view:
        assert isinstance(view, LiveView)
        view.draw(run, job, known, now=0.0, wall=0.0)
        known["index"].done += 12 << 19
        view.draw(run, job, known, now=2.0, wall=2.0)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "30/40" in shown
    assert "18.0 MiB" in shown
    assert "3.0 MiB/s" in shown
    assert "3/8" in shown
    assert "loss 2.5000  1 rank" in shown
    assert "done in 0.0 s" in shown
    assert "waits for the stages before it" in shown


def test_a_reason_is_told_as_it_is_and_nothing_of_it_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(name="crawl", state=STATE_FAILED, reason="http://a.example/[/x] [red]:apple:\x1b[2J")
    client: Any = SimpleNamespace(
        pipeline=SimpleNamespace(GetRun=lambda _: Run(name="runs/a", state=STATE_FAILED, stages=[stage]))
    )
    follow(client, "runs/a", quiet=False, ended=lambda: False, trouble=lambda: "")
    assert capsys.readouterr().err == f"{'crawl':13} failed: http://a.example/[/x] [red]:apple:\\x1b[2J\n"


def test_at_80_columns_each_stage_is_one_line_with_what_matters() -> None:
    job = Job(name="jobs/j", step=400, loss=3.1, decided_step=300, spec=JobSpec(steps=800))
    job.shape.data_parallel = 2
    digest = "blake3:" + "0" * 64
    run = Run(
        name="runs/5d98149dfd29-1",
        stages=[
            Stage(name="dedup", kind="dedup", state=STATE_DONE, content_digest=digest, summary="416 documents kept"),
            Stage(name="tokenization", state=STATE_DONE, content_digest=digest, resumptions=1),
            Stage(name="train", state=STATE_RUNNING, resource="jobs/j"),
            Stage(name="sample", reason="waits for a long reason that nobody would read to its very end anyway"),
        ],
    )
    run.spec.title = "words"
    run.stages[2].started_at.FromSeconds(1000)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, highlight=False)
    with _view(console) as view:
        assert isinstance(view, LiveView)
        for now, step, loss in ((0, 300, 5.0), (10, 350, 4.0), (20, 400, 3.1)):
            job.step, job.loss = step, loss
            view.draw(run, job, {}, now=now, wall=1062 + now)
        lines = [text.rstrip() for text in _rendered(view).splitlines()]
    assert len(lines) == 6, lines
    assert max(map(len, lines)) <= 80
    assert lines[0] == "runs/5d98149dfd29-1  words"
    assert "400/800 1:22 80 s left  loss 3.1000" in lines[3]
    assert lines[5] == "416 documents kept  checkpoint at step 300  loss █▄▁"


def _rendered(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(view._progress.get_renderable())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
