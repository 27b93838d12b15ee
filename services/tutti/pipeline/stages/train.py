"""The stage `train`: trains a model on a dataset, or on a mixture of several."""

from collections.abc import Iterator, Mapping
from typing import Any

from tutti.chassis.errors import NotFound
from tutti.chassis.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.manifest import CheckpointBody
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    CheckpointState,
)
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    Job,
    JobSpec,
    MixedDataset,
)
from tutti.contracts.tokenization.v1 import Dataset
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.blobchecks import Checked, Expected
from tutti.pipeline.mixing import weighted
from tutti.pipeline.modelsize import NUMBER_BYTES, STATE_NUMBERS, parameters
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages.definition import MAKE_RUN, Asked, Flat, Role, StageDef
from tutti.pipeline.values import Inputs, Measure, Result, Seen

SNAPSHOTS = 2  # that a node keeps of what its ranks hold
STATES = {
    JOB_STATE_QUEUED: STATE_PENDING,
    JOB_STATE_DONE: STATE_DONE,
    JOB_STATE_FAILED: STATE_FAILED,
    JOB_STATE_CANCELLED: STATE_CANCELLED,
}


class TrainStage(StageDef):
    name = "train"
    work = Job
    makes = Checkpoint
    roles = (
        Role("dataset", Dataset, default="tokenization"),
        Role("mixture", Dataset, required=False, many=True),
    )
    measured = Measure(MAKE_RUN, 252.9, 800 * 16 * 256 * 1_279_104)
    # No request tells the trainer's version; a change of the arithmetic of a step changes it.
    version = "train-1"
    expensive = True

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"train": Flat(recipe)}

    def request(self, asked: Asked) -> JobSpec:
        train, dataset, training = asked.recipe.train, asked.one("dataset"), _training(asked)
        return JobSpec(
            training=training.to_json(),
            training_digest=training.digest(),
            dataset_manifest_key=dataset.manifest_key,
            dataset_digest=dataset.content_digest,
            leaves=training.step.leaves,
            steps=training.steps,
            data_parallel=train.ranks,
            shrink=train.shrink,
            attempts=train.attempts,
            mixed=[
                MixedDataset(manifest_key=each.manifest_key, digest=each.content_digest)
                for each in asked.all("mixture")
            ],
        )

    def parameters(self, asked: Asked) -> Mapping[str, object]:
        return {"training": _training(asked).digest()}

    def today(self, asked: Asked, host: Host) -> Inputs:
        """With the other datasets of its mixture, and the weight of each."""
        if asked.recipe.mixture is None:
            return asked.inputs
        own, *others = weighted(asked.recipe.mixture, asked.one("dataset"), host)
        return {**asked.inputs, "dataset": (own,), "mixture": tuple(others)}

    def seen(self, work: Any) -> Seen:
        """Of a done job the result lacks its manifest, which the committer knows."""
        state = STATES.get(work.state, STATE_RUNNING)
        result = Result(work.name, "", work.state_digest)
        return Seen(work.name, state, work.reason, result if state == STATE_DONE else None)

    def settled(self, work: Any, host: Host) -> Seen:
        seen = self.seen(work)
        if seen.result is None:
            return seen
        name = f"checkpoints/{work.name.removeprefix('jobs/')}/{work.line}/{work.decided_step}"
        try:
            last = kind_of(Checkpoint).get(host.channel("committer"), name)
        except NotFound:
            return Seen(work.name, STATE_FAILED, f"its last checkpoint {name} is not known to the committer", None)
        if last.state in (CHECKPOINT_STATE_QUARANTINED, CHECKPOINT_STATE_PRUNED):
            what = f"its last checkpoint {name} is {CheckpointState.Name(last.state)}: {last.reason}"
            return Seen(work.name, STATE_FAILED, what, None)
        return Seen(work.name, seen.state, "", Result(work.name, last.manifest_key, last.state_digest))

    def on_the_way(self, result: Result, host: Host) -> Iterator[Result]:
        """The checkpoints before the last one."""
        for page in kind_of(Checkpoint).pages(host.channel("committer"), f"job={result.resource}"):
            for each in page:
                if each.state == CHECKPOINT_STATE_COMMITTED and each.manifest_key != result.manifest_key:
                    yield Result(result.resource, each.manifest_key, each.state_digest)

    def listed(self, data: bytes, *, thorough: bool) -> tuple[str, list[Checked]]:
        body = CheckpointBody.decode(data)
        return body.state_digest, [
            Expected(blob.key, blob.nbytes, blob.bytes_digest if thorough else "") for blob in body.blobs
        ]

    def amount(self, recipe: Recipe, pages: int) -> float:
        """Tokens x parameters, to which the operations are in proportion (Kaplan et al. 2020, section 2.1)."""
        assert recipe.train.rows is not None
        tokens = recipe.train.steps * recipe.train.microbatches * recipe.train.rows * recipe.data.context
        return float(tokens * parameters(recipe))

    def disk(self, recipe: Recipe) -> int:
        """All checkpoints: none is removed by itself."""
        train = recipe.train
        assert train.checkpoint_every is not None
        count = -(-train.steps // train.checkpoint_every)
        return count * STATE_NUMBERS * NUMBER_BYTES * parameters(recipe)

    def memory(self, recipe: Recipe) -> int:
        """At least: each rank's parameters and gradient, logits of a microbatch with theirs, the state, its snapshots.

        Activations, and torch itself, come on top.
        """
        train, model = recipe.train, parameters(recipe)
        assert train.rows is not None
        logits = train.rows * recipe.data.context * recipe.tokenizer.vocabulary
        return NUMBER_BYTES * (train.ranks * 2 * (model + logits) + (1 + SNAPSHOTS) * STATE_NUMBERS * model)

    def summary(self, work: Any) -> str:
        return f"{work.step:,} steps, loss {work.loss:.4f}"


def _training(asked: Asked) -> Training:
    """What is trained; the first dataset of a mixture is the stage's own."""
    own, others = asked.one("dataset"), asked.all("mixture")
    shares = (own, *others) if others else ()
    mixture = tuple(WeightedDataset(each.content_digest, each.weight) for each in shares)
    return asked.recipe.training(own.content_digest, mixture)


STAGE = TrainStage()
