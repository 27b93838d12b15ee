"""The stage `train`: trains a model on a dataset, or on a mixture of several."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.bodies import decode_body
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.committer.v1 import (
    Checkpoint,
)
from tutti.contracts.scheduler.v1 import (
    JobSpec,
    MixedDataset,
)
from tutti.contracts.tokenization.v1 import Dataset, Tokenizer
from tutti.model.chunks import Layout
from tutti.model.spec import SpecError
from tutti.model.training import Initial, Training, WeightedDataset
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext
from tutti.pipeline.definitions.mixing import weighted
from tutti.pipeline.definitions.pretraining import ANY, NUMBER_BYTES, STATE_NUMBERS, parameters, training, unworkable
from tutti.pipeline.definitions.tokenized import dataset_row
from tutti.pipeline.definitions.trainingstage import TrainingStage, leaf_rows, misfits
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.sections import TrainPart
from tutti.pipeline.recipes.values import Inputs, Measure, Result
from tutti.pipeline.recipes.view import View
from tutti.records.errors import CorpusError

SNAPSHOTS = 2  # that a node keeps of what its ranks hold


class TrainStage(TrainingStage):
    name = "train"
    roles = (
        Role("dataset", Dataset, default="tokenization"),
        Role("mixture", Dataset, required=False, many=True, given=False),
        Role("initial", Checkpoint, required=False),
    )
    section = TrainPart
    measured = Measure(MAKE_RUN, 342.0, 800 * 16 * 256 * 1_279_104)
    # No request tells the trainer's version; a change of the arithmetic of a step changes it.
    version = "train-1"
    expensive = True

    def filled(self, section: TrainPart, keys: Keys) -> TrainPart:
        """With rows, warmup and the interval of checkpoints."""
        rows = leaf_rows(keys, section.rows, section.batch, section.microbatches)
        values = {
            "rows": rows,
            "batch": None,
            "warmup": section.steps // 20 if section.warmup is None else section.warmup,
            "checkpoint_every": section.checkpoint_every or max(1, section.steps // 10),
        }
        return section.model_copy(update=values)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        train = _part(view)
        conflicts = list(misfits(view.instance.keys, train))
        yield from conflicts
        if not conflicts and None not in (train.rows, train.warmup, train.checkpoint_every):
            try:
                training(view, ANY)
            except SpecError as error:
                yield unworkable(view, error)

    def request(self, asked: StageContext) -> JobSpec:
        train, dataset, made = _part(asked.view), asked.one("dataset"), _training(asked)
        return JobSpec(
            training=made.to_json(),
            training_digest=made.digest(),
            dataset_manifest_key=dataset.manifest_key,
            dataset_digest=dataset.content_digest,
            leaves=made.step.leaves,
            steps=made.steps,
            data_parallel=train.ranks,
            shard=train.sharded,
            shrink=train.shrink,
            attempts=train.attempts,
            initial=made.initial.checkpoint if made.initial else "",
            mixed=[
                MixedDataset(manifest_key=each.manifest_key, digest=each.content_digest)
                for each in asked.all("mixture")
            ],
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        # The name of the checkpoint that it begins with does not decide; its state is among the inputs.
        return {"training": replace(_training(asked), initial=None).digest()}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the other datasets of its mixture, and the weight of each."""
        _check_dataset(asked, host)
        if (initial := asked.get("initial")) is not None:
            _check_initial(asked, initial, host)
        mixture = asked.view.recipe.mixture
        if mixture is None:
            return asked.inputs
        own, *others = weighted(mixture, asked.one("dataset"), host)
        return {**asked.inputs, "dataset": (own,), "mixture": tuple(others)}

    def amount(self, view: View, pages: int) -> float:
        """Tokens x parameters, to which the operations are in proportion (Kaplan et al. 2020, section 2.1)."""
        train = _part(view)
        tokens = train.steps * train.microbatches * train.rows * view.tokens.context
        return float(tokens * parameters(view))

    def disk(self, view: View) -> int:
        """All checkpoints: none is removed by itself."""
        train = _part(view)
        count: int = -(-train.steps // train.checkpoint_every)
        return count * STATE_NUMBERS * NUMBER_BYTES * parameters(view)

    def memory(self, view: View) -> int:
        """At least: the numbers that each rank computes with, the state, its snapshots."""
        ranks: int = _part(view).ranks
        return NUMBER_BYTES * (ranks * _computing(view) + _kept(view))

    def rank_memory(self, view: View) -> int:
        """The numbers that a rank computes with, its share of the state and of the snapshots.

        Activations, and torch itself, come on top.
        """
        share: int = -(-_kept(view) // _part(view).ranks)
        return NUMBER_BYTES * (_computing(view) + share)


def _part(view: View) -> TrainPart:
    return view.section(TrainPart)


def _computing(view: View) -> int:
    """The numbers that a rank computes with: parameters and gradient, a second gradient for audits, logits of a
    microbatch with theirs, the gradient of the output matrix while it is added up.

    A rank that keeps its share of the parameters alone has one unit of the model beside it.
    """
    train, made, whole = _part(view), training(view, ANY).model, parameters(view)
    logits, head = train.rows * made.context * made.vocabulary, made.vocabulary * made.width
    own: int = whole
    if train.sharded:
        own = -(-whole // train.ranks) + max(unit.length for unit in Layout(made).units)
    gradients = (2 if train.audit_every else 1) * whole
    found: int = own + gradients + 2 * logits + head
    return found


def _kept(view: View) -> int:
    """The numbers of the state, and of the snapshots that a node keeps of it."""
    return (1 + SNAPSHOTS) * STATE_NUMBERS * parameters(view)


def _training(asked: StageContext) -> Training:
    """The training; the first dataset of a mixture is the stage's own."""
    own, others, initial = asked.one("dataset"), asked.all("mixture"), asked.get("initial")
    shares = (own, *others) if others else ()
    mixture = tuple(WeightedDataset(each.content_digest, each.weight) for each in shares)
    made = training(asked.view, own.content_digest, mixture)
    if initial is None:
        return made
    return replace(made, initial=Initial(checkpoint_of(initial.manifest_key), initial.content_digest))


def _check_dataset(asked: StageContext, host: Host) -> None:
    """Refuse a dataset that the recipe names and whose rows this model cannot read. Raises InvalidField."""
    dataset = asked.one("dataset")
    row = dataset_row(host, dataset) if dataset.resource.startswith("datasets/") else None
    if row is None:
        return
    vocabulary = kind_of(Tokenizer).get(host.channel("tokenization"), row.tokenizer).vocabulary
    own = asked.view.tokens.context, asked.view.tokens.vocabulary
    for what, seen, expected, fits in (
        ("data.context", own[0], row.context, own[0] == row.context),
        ("tokenizer.vocabulary", own[1], vocabulary, own[1] >= vocabulary),
    ):
        if not fits:
            raise asked.view.refused(
                "from.dataset", seen=f"{what}: {seen}", expected=f"{what}: {expected}, as in {row.name}"
            )


def _check_initial(asked: StageContext, initial: Result, host: Host) -> None:
    """Refuse parameters of another model, or over other tokens. Raises InvalidField."""
    name = checkpoint_of(initial.manifest_key)
    try:
        began = Begun.of(decode_body(host.blobs.get(initial.manifest_key)))
    except (BlobMissing, CorpusError) as error:
        raise asked.view.refused("from.initial", seen=name, expected=f"a checkpoint that is there: {error}") from error
    own, theirs = _training(asked).model, began.model
    differ = sorted(each.name for each in fields(own) if getattr(own, each.name) != getattr(theirs, each.name))
    if differ:
        seen = ", ".join(f"{field} {getattr(own, field)}" for field in differ)
        expected = ", ".join(f"{field} {getattr(theirs, field)}" for field in differ)
        raise asked.view.refused("from.initial", seen=seen, expected=f"the model of {name}: {expected}")
    dataset, other = dataset_row(host, asked.one("dataset")), dataset_row(host, Result("", "", began.dataset))
    if dataset is not None and other is not None and dataset.tokenizer != other.tokenizer:
        raise asked.view.refused(
            "from.initial",
            seen=f"{name} over {other.tokenizer}",
            expected=f"a checkpoint over {dataset.tokenizer}, or tokenizer.of: {other.tokenizer}",
        )


STAGE = TrainStage()
