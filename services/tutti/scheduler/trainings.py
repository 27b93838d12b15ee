"""Trainings as typed messages: what the contract checks field by field, beside the canonical JSON that names them.

Promises: a training that goes to a message and back is the same; a defaulted field that is not set has its default.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, TypeVar, get_args, get_type_hints

import rfc8785
from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import Training as WireTraining
from tutti.contracts.scheduler.v1 import RANK_ROLE_ACTOR, RANK_ROLE_ROLLOUT, Job, JobSpec, RankGroup, RankRole
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.spec import Recorded, SpecError
from tutti.model.training import Training, program_parameters
from tutti.records.records import later_names

R = TypeVar("R", bound=Recorded)
PARAMETERS = "program_parameters"
"""The field whose record depends on the program: canonical JSON on the wire."""
MOST_WORKERS = 64


def tokens_of_step(job: Job) -> int:
    """Return the tokens that a step of a job reads: leaves x rows x context; 0 for a job without a training."""
    training = json.loads(job.spec.training or "{}")
    try:
        return int(training["step"]["leaves"] * training["step"]["rows"] * training["model"]["context"])
    except (KeyError, TypeError):
        return 0


def last_audit(job: Job, step: int) -> int | None:
    """Return the step of a job's last audit up to `step`, 0 before the first; None where it makes none."""
    every = int(json.loads(job.spec.training or "{}").get("audit_every", 0))
    if not every:
        return None
    return job.spec.steps if step >= job.spec.steps else step - step % every


def to_wire(training: Training) -> WireTraining:
    message = WireTraining()
    _fill(message, training)
    return message


def of_wire(message: WireTraining) -> Training:
    """Raises SpecError for a training that cannot work."""
    return _read(Training, message)


def completed(spec: JobSpec) -> JobSpec:
    """The spec with its training in both spellings, and with its group of ranks.

    Raises InvalidField for trainings that differ or cannot be read, and for groups that this version cannot run.
    """
    made = JobSpec()
    made.CopyFrom(spec)
    try:
        if not spec.training and spec.HasField("typed_training"):
            made.training = of_wire(spec.typed_training).to_json()
        training = Training.from_json(made.training)
        typed = of_wire(spec.typed_training) if spec.HasField("typed_training") else training
        made.typed_training.CopyFrom(to_wire(training))
    except ValueError as error:  # a SpecError, or a number that has no room in the message
        raise InvalidField("spec.training", seen=str(error), expected="the canonical JSON of a training") from error
    if typed != training:
        expected = "the training that spec.training holds; give one of the two"
        raise InvalidField("spec.typed_training", seen=typed.digest(), expected=f"{training.digest()}: {expected}")
    if not made.groups:
        made.groups.add(role=RANK_ROLE_ACTOR, program=training.program)
    _check_groups(made.groups, training)
    return made


def _check_groups(groups: Sequence[RankGroup], training: Training) -> None:
    """Raises InvalidField for groups that this version cannot run."""
    own = [(RANK_ROLE_ACTOR, training.program)]
    expected = f"one group of actors that run {training.program}"
    allowed = [own]
    if isinstance(training.program_parameters, GrpoParameters):
        allowed.append([*own, (RANK_ROLE_ROLLOUT, training.program)])
        expected += ", and at most one of rollouts"
    if [(group.role, group.program) for group in groups] not in allowed:
        seen = [f"{RankRole.Name(each.role)} {each.program}" for each in groups]
        raise InvalidField("spec.groups", seen=seen, expected=expected)
    for group in groups:
        workers, most = group.role == RANK_ROLE_ROLLOUT, MOST_WORKERS
        if not (1 <= group.ranks <= most if workers else group.ranks == 0):
            expected = f"1 … {most} rollout workers" if workers else "0 for actors: data_parallel gives their number"
            raise InvalidField("spec.groups.ranks", seen=group.ranks, expected=expected)


def _fill(message: Message, record: Recorded) -> None:
    """Set every field but later ones that have their default, as in canonical JSON."""
    unwritten = later_names(type(record)) - set(record.to_dict())
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if field.name in unwritten:
            continue
        if field.name == PARAMETERS:
            setattr(message, field.name, rfc8785.dumps(value.to_dict()).decode())
        elif isinstance(value, Recorded):
            _fill(getattr(message, field.name), value)
        elif isinstance(value, tuple):
            for each in value:
                _fill(getattr(message, field.name).add(), each)
        else:
            setattr(message, field.name, value)


def _object(text: str) -> dict[str, Any]:
    """Raises SpecError for anything but a JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SpecError(f"Training.program_parameters is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SpecError(f"Training.program_parameters is {value!r}; expected a JSON object")
    return value


def respecified(spec: JobSpec, training: Training) -> JobSpec:
    """The spec of a job with another training."""
    made = JobSpec()
    made.CopyFrom(spec)
    made.ClearField("typed_training")
    made.training, made.training_digest, made.steps = training.to_json(), training.digest(), training.steps
    return completed(made)


def part_of(kind: type[Recorded], name: str) -> type[Recorded] | None:
    """Return the record that a field of a record holds, once or several times; None for a plain value."""
    hint = get_type_hints(kind)[name]
    kinds = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and issubclass(each, Recorded)]
    return kinds[0] if kinds and name != PARAMETERS else None


def _read(kind: type[R], message: Message) -> R:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        descriptor, part = message.DESCRIPTOR.fields_by_name[field.name], part_of(kind, field.name)
        value = getattr(message, field.name)
        if field.name == PARAMETERS:
            if message.HasField(field.name):
                values[field.name] = program_parameters(values["program"], _object(value))
        elif part is not None and descriptor.is_repeated:
            values[field.name] = tuple(_read(part, each) for each in value)
        elif part is not None:
            if message.HasField(field.name) or field.default is dataclasses.MISSING:
                values[field.name] = _read(part, value)
        elif not descriptor.has_presence or message.HasField(field.name):
            values[field.name] = value
    return kind(**values)
