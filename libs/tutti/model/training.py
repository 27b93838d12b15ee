"""A training job apart from its placement: model, optimizer, step, data and schedule.

Its digest names the training. Ranks and placement are not in it: they don't change a bit of the result.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import rfc8785

from tutti.corpus.tokens.sampler import MAX_WEIGHTS, DatasetShare, Span
from tutti.model.parameter import MOST, parameter
from tutti.model.programs import PRETRAIN, records
from tutti.model.spec import ModelSpec, OptimizerSpec, Recorded, SpecError, StepSpec
from tutti.model.spikes import OFF, POLICIES
from tutti.records.records import later

RESERVED_1, APPENDED_1 = "reserved@1", "appended@1"
PROGRAMS = tuple(records())
"""Names of programs; the first is the default of a training."""


@dataclass(frozen=True)
class WeightedDataset(Recorded):
    """A dataset of a mixture by the content digest of its manifest: `weight` of every sum(weights) samples."""

    dataset: str
    weight: int

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            dataset=(self.dataset.startswith("blake3:"), "a content digest, blake3:..."),
            weight=(self.weight > 0, "a positive number"),
        )


@dataclass(frozen=True)
class Initial(Recorded):
    """A checkpoint by its name and the digest of its state, whose parameters a training begins with."""

    checkpoint: str
    state_digest: str

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            checkpoint=(self.checkpoint.startswith("checkpoints/"), "the name of a checkpoint, checkpoints/..."),
            state_digest=(self.state_digest.startswith("blake3:"), "a digest, blake3:..."),
        )


@dataclass(frozen=True)
class Conversion(Recorded):
    """The extension of the initial checkpoint by reserved tokens, before the first step.

    `tokenizer` is the version of its tokenizer, which has `vocabulary` ids. By the rule `reserved@1`, `added` tokens
    are reserved before its last id, which moves up; by `appended@1`, for a tokenizer of others, behind all of its ids.
    The rows of a new token are the mean of those of the tokenizer.
    """

    tokenizer: str
    vocabulary: int
    added: int
    rule: str = RESERVED_1

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            tokenizer=(self.tokenizer.startswith("blake3:"), "a content digest, blake3:..."),
            vocabulary=(self.vocabulary > 0, "a positive number"),
            added=(self.added > 0, "a positive number"),
            rule=(self.rule in (RESERVED_1, APPENDED_1), f"{RESERVED_1} or {APPENDED_1}"),
        )


@dataclass(frozen=True)
class RoleModel(Recorded):
    """A checkpoint that a program reads beside the state that it trains, by its name and the digest of its state."""

    role: str
    checkpoint: str
    state_digest: str

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            role=(self.role.isidentifier(), "the name of a role, such as reference"),
            checkpoint=(self.checkpoint.startswith("checkpoints/"), "the name of a checkpoint, checkpoints/..."),
            state_digest=(self.state_digest.startswith("blake3:"), "a digest, blake3:..."),
        )


@dataclass(frozen=True)
class SkippedSteps(Recorded):
    """Steps `first` to `last`, counted from 1, whose data are not read: later steps read what follows them."""

    first: int
    last: int

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            first=(self.first > 0, "a step, counted from 1"),
            last=(self.first <= self.last < MOST, f"a step from first ({self.first}) on"),
        )


def _mixture(value: Sequence[Mapping[str, Any]]) -> tuple[WeightedDataset, ...]:
    return tuple(WeightedDataset.from_dict(each) for each in value)


def _initial(value: Mapping[str, Any]) -> Initial | None:
    return Initial.from_dict(value)


def _conversion(value: Mapping[str, Any]) -> Conversion | None:
    return Conversion.from_dict(value)


def _models(value: Sequence[Mapping[str, Any]]) -> tuple[RoleModel, ...]:
    return tuple(RoleModel.from_dict(each) for each in value)


def _skipped(value: Sequence[Mapping[str, Any]]) -> tuple[SkippedSteps, ...]:
    return tuple(SkippedSteps.from_dict(each) for each in value)


def program_parameters(program: str, value: Mapping[str, Any]) -> Recorded:
    """Return the parameters of a program from JSON. Raises SpecError where it has none, or others."""
    record = records().get(program)
    if record is None:
        raise SpecError(f"Training.program_parameters is {dict(value)!r}; expected none: {program} has no parameters")
    return record.from_dict(value)


def _parameters(value: Recorded) -> Recorded | None:
    """Read by `Training.from_dict`, which knows the program."""
    return value


@dataclass(frozen=True)
class Training(Recorded):
    """`dataset` is the content digest of the dataset's manifest; intervals are in steps; 0 turns a thing off.

    `mixture` lists every dataset that is trained on, `dataset` first; it is empty, and no part of the record, where
    there is no other. Validation is on `dataset` alone. `initial` is absent from the record of a training that begins
    with random parameters; of a checkpoint only the parameters are taken: moments, step and data begin anew.

    `tokenizer` is the version of the tokenizer, where a dataset does not name it: of conversations and preferences,
    which are rendered with the chat template of the digest `template`; `part` names the part of them that is trained
    on. `models` are checkpoints that the program reads beside the state that it trains, in the order of their roles.
    `conversion` is absent unless the initial checkpoint has to be extended.

    `skipped` are steps whose data are left out, each in the numbers of the training that the ones before it leave.

    A checkpoint is due every `checkpoint_every` steps and after the last one; validation every `validate_every` steps
    and after the last one; so are the audits, every `audit_every` steps. `program` names what its ranks do.
    """

    model: ModelSpec
    optimizer: OptimizerSpec
    step: StepSpec
    dataset: str
    checkpoint_every: int = parameter(
        description="steps between two checkpoints; default: a tenth of the steps", ge=1, lt=MOST
    )
    validate_every: int = parameter(0, "steps between two validations; 0: only after the last step", ge=0, lt=MOST)
    audit_every: int = parameter(
        10,
        "steps between two audits, in which ranks compare parameters and repeat leaves of each other; the last step "
        "has one, too; 0: never",
        ge=0,
        lt=MOST,
    )
    mixture: tuple[WeightedDataset, ...] = later((), since="0.2", read=_mixture)
    initial: Initial | None = later(None, since="0.2", read=_initial)
    program: str = later(PRETRAIN, since="0.2")
    tokenizer: str = later("", since="0.2")
    template: str = later("", since="0.2")
    part: str = later("", since="0.2")
    models: tuple[RoleModel, ...] = later((), since="0.2", read=_models)
    program_parameters: Recorded | None = later(None, since="0.2", read=_parameters)
    conversion: Conversion | None = later(None, since="0.2", read=_conversion)
    skipped: tuple[SkippedSteps, ...] = later((), since="0.3", read=_skipped)
    spikes: str = parameter(
        OFF,
        "what to do about spikes, which are steps whose loss or gradient norm is far above that of the steps before. "
        "off: nothing; observe: record them; skip: record them, and leave the model and the optimizer as they are in "
        "these steps; rewind: the same until the spike ends, then go back to the newest checkpoint before it, and "
        "leave out its data",
        since="0.3",
        choices=POLICIES,
    )

    def __post_init__(self) -> None:
        self._check_limits()
        self._require(
            dataset=(self.dataset.startswith("blake3:"), "a content digest, blake3:..."),
            program=(self.program in PROGRAMS, f"one of {', '.join(PROGRAMS)}"),
            tokenizer=(self.tokenizer == "" or self.tokenizer.startswith("blake3:"), "a content digest, blake3:..."),
            template=(self.template == "" or self.template.startswith("blake3:"), "a digest, blake3:..."),
        )
        if self.conversion is not None and not self.tokenizer:
            raise SpecError(
                "Training.conversion extends a tokenizer; expected Training.tokenizer to be the extended one"
            )
        record = records()[self.program]
        if type(self.program_parameters) is not (record or type(None)):
            expected = f"{record.__name__}: the parameters of {self.program}" if record else "none"
            raise SpecError(f"Training.program_parameters is {self.program_parameters!r}; expected {expected}")
        if self.skipped and self.updates:
            raise SpecError(
                f"Training.skipped has {len(self.skipped)} entries; expected none: {self.program} makes its own data"
            )
        if self.spikes != OFF and self.program != PRETRAIN:
            raise SpecError(
                f"Training.spikes is {self.spikes}; expected {OFF}: {self.program} does not look for spikes"
            )
        roles = [each.role for each in self.models]
        if roles != sorted(set(roles)):
            raise SpecError(f"Training.models has roles {roles}; expected them sorted, each once")
        if self.step.length > self.model.context:
            raise SpecError(
                f"StepSpec.length is {self.step.length}; expected at most {self.model.context}, the model's context"
            )
        names = [each.dataset for each in self.mixture]
        if names and (names[0] != self.dataset or len(names) < 2 or len(set(names)) != len(names)):
            raise SpecError(f"Training.mixture is {names}; expected {self.dataset} first, then others, each once")
        if (added := sum(each.weight for each in self.mixture)) > MAX_WEIGHTS:
            raise SpecError(f"Training.mixture has weights that add up to {added}; expected at most {MAX_WEIGHTS}")

    @property
    def steps(self) -> int:
        return self.optimizer.steps

    @property
    def length(self) -> int:
        """Tokens of a row that are read; a row has one more, which is predicted."""
        return self.step.length or self.model.context

    @property
    def datasets(self) -> tuple[str, ...]:
        """The content digests of all that is trained on, `dataset` first."""
        return tuple(each.dataset for each in self.mixture) or (self.dataset,)

    @property
    def unshardable(self) -> str:
        """The reason why a rank cannot keep its own share of the parameters alone; empty if it can."""
        if self.step.compile:
            return "the model is compiled"
        if getattr(self.program_parameters, "WHOLE", False):
            return f"{self.program} needs all parameters on each rank"
        return ""

    @property
    def updates(self) -> int:
        """Optimizer steps of an iteration of rollouts; 0 for a program that makes none."""
        return int(getattr(self.program_parameters, "updates", 0))

    def first_span(self, sequences: Mapping[str, int]) -> Span:
        """The span of a job that starts from nothing; `sequences` are the sequences to train on, by dataset."""
        return Span(
            from_step=0,
            datasets=tuple(
                DatasetShare(each.dataset, sequences=sequences[each.dataset], weight=each.weight, start=0)
                for each in self.mixture or (WeightedDataset(self.dataset, 1),)
            ),
            seed=self.step.seed,
            leaves=self.step.leaves,
            rows_per_leaf=self.step.rows,
        )

    def extended(self, steps: int) -> Self:
        """The same training with more steps: its warmup and the share of its decay stay."""
        spec = self.optimizer
        end = steps + spec.decay_end - spec.steps if spec.decay_end else 0
        return replace(self, optimizer=replace(spec, steps=steps, decay_end=end))

    def continues(self, earlier: "Training") -> bool:
        """True if states of an earlier training can become states of this one.

        Both are the same apart from their numbers of steps and the data that they leave out.
        """

        def rest(training: Training) -> dict[str, Any]:
            found = training.to_dict() | {"skipped": ()}
            found["optimizer"] = found["optimizer"] | {"steps": 0, "decay_end": 0}
            return found

        return rest(self) == rest(earlier)

    def without(self, first: int, last: int) -> Self:
        """The same training, in which the data of steps `first` to `last` are not read."""
        return replace(self, skipped=(*self.skipped, SkippedSteps(first, last)))

    def model_of(self, role: str) -> RoleModel:
        """Return the checkpoint of a role. Raises SpecError where there is none."""
        for each in self.models:
            if each.role == role:
                return each
        raise SpecError(f"Training.models has no {role}; expected one, as {self.program} reads it")

    def checkpoint_due(self, step: int) -> bool:
        return step == self.steps or step % self.checkpoint_every == 0

    def audit_due(self, step: int) -> bool:
        return self.audit_every > 0 and (step == self.steps or step % self.audit_every == 0)

    def audited(self, step: int) -> int:
        """The step of the last audit up to `step`; 0 where there is none."""
        if self.audit_every == 0:
            return 0
        return self.steps if step >= self.steps else step - step % self.audit_every

    def validation_due(self, step: int) -> bool:
        return step == self.steps or (self.validate_every > 0 and step % self.validate_every == 0)

    def iterations(self, after: int, step: int) -> range:
        """The iterations whose rollouts steps `after` + 1 to `step` train on; none of a program that makes none."""
        updates = getattr(self.program_parameters, "updates", 0)
        return range(after // updates, -(-step // updates)) if updates else range(0)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from a mapping that `to_dict` could have written. Raises SpecError."""
        parts: dict[str, type[Recorded]] = {"model": ModelSpec, "optimizer": OptimizerSpec, "step": StepSpec}
        read: dict[str, Any] = {
            name: parts[name].from_dict(part) if name in parts else part for name, part in value.items()
        }
        if (parameters := read.get("program_parameters")) is not None:
            read["program_parameters"] = program_parameters(str(value.get("program", PRETRAIN)), parameters)
        return super().from_dict(read)

    def to_json(self) -> str:
        """Canonical JSON (RFC 8785): what travels as `training` in jobs, assignments and rank messages."""
        return rfc8785.dumps(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises SpecError on anything that `to_json` would not have written."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SpecError(f"a training is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise SpecError(f"a training is a JSON object; this is {type(value).__name__}")
        return cls.from_dict(value)
