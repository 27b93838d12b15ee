"""Results of a run or a job by name: checkpoints, models, the dataset."""

import json
from typing import Any

from tutti.client import Client
from tutti.client.resources import get_one, list_all
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_DECIDED

LIVE = (CHECKPOINT_STATE_DECIDED, CHECKPOINT_STATE_COMMITTED)


def newest_checkpoint(client: Client, run: Any) -> str:
    """Return the name of the newest checkpoint of the last training of a run; "" before there is one."""
    jobs = [stage.resource for stage in run.stages if stage.resource.startswith("jobs/")]
    found = [found for job in jobs if (found := newest_of_job(client, job))]
    return found[-1] if found else ""


def models(client: Client, run: Any) -> list[tuple[str, str]]:
    """Return each stage of a run that trained a model which writes text, and its newest checkpoint, in their order."""
    jobs = [(stage.name, stage.resource) for stage in run.stages if stage.resource.startswith("jobs/")]
    found = [(stage, get_one(client, "jobs", name)) for stage, name in jobs]
    writing = [(stage, job.name) for stage, job in found if not _is_scalar(job.spec.training)]
    return [(stage, newest) for stage, name in writing if (newest := newest_of_job(client, name))]


def _is_scalar(training: str) -> bool:
    """Return whether a model gives a number instead of text, as a reward model does."""
    return bool(json.loads(training or "{}").get("model", {}).get("scalar_head"))


def dataset_of(run: Any) -> str:
    """Return the name of the dataset that a run made; "" before it has."""
    made = next((stage.content_digest for stage in run.stages if stage.name == "tokenization"), "")
    return f"datasets/{made.removeprefix('blake3:')}" if made else ""


def newest_of_job(client: Client, job: str) -> str:
    """Return the name of the newest checkpoint of a job that is neither damaged nor removed; "" before there is one."""
    found = [each for each in list_all(client, "checkpoints", f"job={job}") if each.state in LIVE]
    newest = max(found, key=lambda each: (each.decided_at.ToNanoseconds(), each.step), default=None)
    return newest.name if newest else ""
