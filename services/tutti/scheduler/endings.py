"""The ends of attempts that would repeat, by the reasons that agents give.

Pure. Promises: a machine or a network that was lost is never one of them; a job whose attempts make checkpoints is not
ended by them.
"""

import re

from tutti.contracts.scheduler.v1 import Job
from tutti.model.footprint import footprint
from tutti.model.training import Training
from tutti.records.canonical import content_digest
from tutti.records.sizes import size
from tutti.scheduler import topology
from tutti.scheduler.jobs import Ending

OUT_OF_MEMORY, RANK_ERROR = "OUT_OF_MEMORY", "RANK_ERROR"
MOST_FOR_MEMORY = 2
"""Another process may have had the memory in the first attempt."""
MOST_ERRORS = 3
RANK = re.compile(r"^rank \d+\b")


def ending_of(job: Job, reason: str, cause: str, step: int) -> Ending | None:
    """Return the end of an attempt whose rank was lost for this reason; None if the next attempt may well succeed."""
    if reason == OUT_OF_MEMORY:
        return Ending(reason, MOST_FOR_MEMORY, f"out of memory: {_needs(job)}")
    if reason == RANK_ERROR:
        key = content_digest({"cause": _without_rank(cause), "step": step}, kind="ending")
        words = f"with the same error of a rank after step {step:,}, which is not one of a machine"
        return Ending(key, MOST_ERRORS, words)
    return None


def _without_rank(cause: str) -> str:
    """The same error may come first from another rank."""
    return RANK.sub("", cause, count=1)


def _needs(job: Job) -> str:
    training, ranks = Training.from_json(job.spec.training), topology.wanted(job)
    found = footprint(training, ranks, job.spec.shard)
    each = f"{size(found.rank)} for each of {ranks} ranks" if ranks > 1 else size(found.rank)
    fewer = ", or run fewer ranks on a node" if ranks > 1 else ""
    return f"it needs at least {each}, an estimate, and torch and the services need some too; {found.remedy}{fewer}"
