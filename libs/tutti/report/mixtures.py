"""The mixture that a job reads: each dataset with its weight, and how often it has been read."""

import json

from tutti.client import Client
from tutti.client.plain import Plain
from tutti.contracts.common.v1 import GetRequest

SHOWN = len("datasets/") + 12


def mixture(client: Client, job: Plain) -> list[Plain]:
    """A row a dataset, the run's own first: what of it was read up to the job's step, and will be up to its last one.

    Empty where the job reads one dataset alone. Raises NotFound.
    """
    if "mixture" not in json.loads(job["spec"]["training"] or "{}"):
        return []
    # They bring numpy, for which no other command waits.
    from tutti.model.training import Training

    training = Training.from_json(job["spec"]["training"])
    names = {digest: f"datasets/{digest.removeprefix('blake3:')}" for digest in training.datasets}
    rows = {digest: client.tokenization.GetDataset(GetRequest(name=name)) for digest, name in names.items()}
    span = training.first_span({digest: row.sequences for digest, row in rows.items()})
    now, end = span.starts_at(job["step"]), span.starts_at(training.steps)
    return [
        {
            "dataset": names[share.dataset_version],
            "weight": share.weight,
            "sequences": share.sequences,
            "read": read,
            "epochs": read / share.sequences,
            "epochs_in_all": last / share.sequences,
        }
        for share, read, last in zip(span.datasets, now, end, strict=True)
    ]


def mixed(training: str, dataset: str) -> float:
    """The share of what a training reads that comes of a dataset; 0 where it does not, or reads nothing else."""
    shares = json.loads(training or "{}").get("mixture", [])
    whole = sum(each["weight"] for each in shares)
    digest = f"blake3:{dataset.removeprefix('datasets/')}"
    return sum(each["weight"] for each in shares if each["dataset"] == digest) / whole if whole else 0.0


def words(rows: list[Plain]) -> list[str]:
    """A line a dataset."""
    whole = sum(each["weight"] for each in rows)
    found = []
    for each in rows:
        part = f"{100 * each['weight'] / whole:.1f} % of what is read, {each['sequences']:,} sequences"
        read = f"read {each['epochs']:.2f} times"
        if each["epochs"] != each["epochs_in_all"]:
            read += f" of {each['epochs_in_all']:.2f}"
        found.append(f"{each['dataset'][:SHOWN]}  {part}, {read}")
    return found
