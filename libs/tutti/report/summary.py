"""The summary of a run: counts, bits per byte compared with the baselines, checkpoints, times."""

import contextlib
from collections.abc import Callable, Sequence

from tutti.chassis.errors import NotFound
from tutti.client import READING_SECONDS, Client, Problem
from tutti.client.plain import Plain, plain
from tutti.client.resources import get_one, list_all
from tutti.contracts.committer.v1 import CurvePoint, GetCurveRequest
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, GetRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.sampling.v1 import ReadSampleRequest
from tutti.records.figures import NEWEST_STEPS, newest_loss
from tutti.report import datasets, mixtures, passages
from tutti.report.ancestry import ancestry
from tutti.report.durations import seconds
from tutti.report.results import models


def summary(client: Client, run: Run, *, warn: Callable[[str], object]) -> Plain:
    """Everything of a run that its stages' owners know, as plain values; a part that does not exist is null.

    `warn` is called with the reason for a sample whose passages cannot be searched.
    """
    stages = {stage.name: stage for stage in run.stages}
    found: Plain = {"run": plain(run), "took": seconds(run)}
    found["seconds"] = {name: seconds(stage) for name, stage in stages.items()}
    found |= dict.fromkeys(TOLD)
    for stage in run.stages:
        if stage.name in TOLD and stage.resource:
            with contextlib.suppress(NotFound):
                found[stage.name] = plain(get_one(client, stage.resource.partition("/")[0], stage.resource))
    found["dataset"], found["mixture"], found["checkpoints"] = None, [], []
    if found["tokenization"] and found["tokenization"]["dataset"]:
        name = found["tokenization"]["dataset"]
        found["dataset"] = datasets.told(plain(client.tokenization.GetDataset(GetRequest(name=name))))
        tokenizer = client.tokenization.GetTokenizer(GetRequest(name=found["dataset"]["tokenizer"]))
        found["dataset"]["vocabulary"] = tokenizer.vocabulary
    if found["train"]:
        with contextlib.suppress(NotFound):
            found["mixture"] = mixtures.mixture(client, found["train"])
        rows = [plain(each) for each in list_all(client, "checkpoints", f"job={found['train']['name']}")]
        found["checkpoints"] = sorted(rows, key=lambda each: (each["line"], each["step"]))
        under_way = stages["train"].state == STATE_RUNNING  # its newest steps are beyond the newest checkpoint
        found["train"] |= loss_of(client, [] if under_way else found["checkpoints"])
        found["train"] |= trained(found["train"], found["dataset"])
    found["ancestry"] = ancestry(run)
    found["models"] = [{"stage": stage, "checkpoint": name} for stage, name in models(client, run)]
    found["continuations"] = [
        {**each, "stage": stage.name}
        for stage in run.stages
        if stage.resource.startswith("samples/") and stage.state == STATE_DONE
        for each in continued(client, stage.resource, warn)
    ]
    return found


def trained(job: Plain, dataset: Plain | None) -> Plain:
    """`parameters` of the model, and how many `passes` over its one dataset the steps were; null where nobody knows."""
    # They bring numpy, for which no other command waits.
    from tutti.model.chunks import Layout
    from tutti.model.training import Training

    if not job["spec"]["training"]:
        return {"parameters": None, "passes": None}
    training = Training.from_json(job["spec"]["training"])
    read = job["step"] * training.step.leaves * training.step.rows
    alone = dataset and dataset["sequences"] and not training.mixture
    passes = read / dataset["sequences"] if dataset and alone else None
    return {"parameters": Layout(training.model).parameters, "passes": passes}


def loss_of(client: Client, checkpoints: Sequence[Plain]) -> Plain:
    """The mean of the `newest_steps` up to the last checkpoint whose loss is known and finite; null for none."""
    points: Sequence[CurvePoint] = ()
    if checkpoints:
        name, step = checkpoints[-1]["name"], checkpoints[-1]["step"]
        asked = GetCurveRequest(name=name, after_step=max(0, step - NEWEST_STEPS))
        with contextlib.suppress(Problem):
            points = client.committer.GetCurve(asked, timeout=READING_SECONDS).points
    mean, steps = newest_loss(each.loss for each in points)
    return {"newest_loss": mean, "newest_steps": steps}


def continued(client: Client, name: str, warn: Callable[[str], object]) -> list[Plain]:
    """The texts of a sample, with the passages that they share with what its checkpoint was trained on.

    Of answers to conversations, which may be many, the first SHOWN_ANSWERS.
    """
    spec = client.sampling.GetSample(GetRequest(name=name)).spec
    most = SHOWN_ANSWERS if spec.HasField("prompt_set") else 0
    read = client.sampling.ReadSample(ReadSampleRequest(name=name, page_size=most)).continuations
    return passages.continued(client, [plain(each) for each in read], spec.checkpoint, warn=warn)


TOLD = ("crawl", "ingest", "filter", "dedup", "tokenization", "train", "index", "sample")
"""The stages of which a summary has more than one line."""
ORDINARY = (*TOLD, "evaluation")
"""The stages that top-level keys of a recipe ask for."""
SHOWN_ANSWERS = 5
