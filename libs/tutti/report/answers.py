"""The answers of a run's models and how they were judged, read from the services that own them."""

import contextlib
import json
from collections.abc import Iterator

from tutti.chassis.errors import Problem
from tutti.client import READING_SECONDS, Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import get_one
from tutti.contracts.committer.v1 import GetCurveRequest
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.sampling.v1 import ReadSampleRequest
from tutti.report.abilities import Answers, Contest, Held

PRETRAIN = "pretrain"
FEWEST_POINTS = 4
MOST_ANSWERS = 1000
"""Answers of a sample that are read: one page."""
HELD_OUT = {PRETRAIN: "text", "sft": "demonstrations"}
"""The samples that a program holds out, for those whose loss is that of text."""


def read(client: Client, run: Run, models: list[Plain]) -> Answers:
    """The comparisons of a run by simulated crowds; a part that nobody knows is missing."""
    from tutti.judgements.crowds import Crowd, InvalidCrowd  # pydantic, which no other command needs

    stages = {stage.resource: stage.name for stage in run.stages if stage.resource and stage.state == STATE_DONE}
    contests, languages = list[Contest](), {}
    verdicts = dict(_verdicts(client, run))
    answers: dict[str, list[Plain]] = {}
    for resource, stage in stages.items():
        if not resource.startswith("comparisons/"):
            continue
        with contextlib.suppress(Problem, InvalidCrowd):
            compared = plain(get_one(client, "comparisons", resource))
            language = Crowd.read(compared["spec"]["crowd"]).language
            sides = [compared["spec"][side]["name"] for side in ("baseline", "candidate")]
            for name in sides:
                if stages.get(name, name) not in answers:
                    answers[stages.get(name, name)] = _answers(client, name)
            baseline, candidate = (stages.get(name, name) for name in sides)
            contests.append(Contest(stage, baseline, candidate, compared, verdicts.get(resource, "")))
            languages[stage] = language
    return Answers(tuple(contests), answers, languages, tuple(_held(client, models)) if contests else ())


def _answers(client: Client, name: str) -> list[Plain]:
    request = ReadSampleRequest(name=name, page_size=MOST_ANSWERS)
    return [plain(each) for each in client.sampling.ReadSample(request, timeout=READING_SECONDS).continuations]


def _verdicts(client: Client, run: Run) -> Iterator[tuple[str, str]]:
    """The decision of a release about each comparison that it read."""
    for stage in run.stages:
        if stage.resource.startswith("releases/") and stage.state == STATE_DONE:
            with contextlib.suppress(Problem):
                release = plain(get_one(client, "releases", stage.resource))
                refused = release["standing"] == "refused"
                words = f"refused ({release['reason']})" if refused else f"released as {stage.name}"
                yield from ((each["name"], words) for each in release["spec"]["comparisons"])


def _held(client: Client, models: list[Plain]) -> Iterator[Held]:
    """The losses of those models that were validated on text."""
    for each in models:
        with contextlib.suppress(Problem):
            request = GetCurveRequest(name=each["checkpoint"], max_points=FEWEST_POINTS)
            curve = client.committer.GetCurve(request, timeout=READING_SECONDS)
            checked = [point for point in curve.validations if point.tokens]
            job = f"jobs/{each['checkpoint'].split('/')[1]}"
            program = _program(client.scheduler.GetJob(GetRequest(name=job)).spec.training)
            if checked and program in HELD_OUT:
                yield Held(each["stage"], checked[-1].nats / checked[-1].tokens, HELD_OUT[program])


def _program(training: str) -> str:
    return str(json.loads(training or "{}").get("program", PRETRAIN))
