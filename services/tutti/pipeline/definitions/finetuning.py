"""Stages that go on with a checkpoint over conversations or preferences: what they have in common.

Promises: model and tokenizer are those of the checkpoint; both are known when the checkpoint is, and a tokenizer
that does not reserve the role tokens of the recipe's template is refused then.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of, manifest_key
from tutti.contracts.committer.v1 import Checkpoint, GetCurveRequest
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import RoleModel as WireModel
from tutti.contracts.scheduler.v1 import JobSpec
from tutti.corpus.conversations.conversationset import Lines
from tutti.corpus.conversations.rendered import TemplateError
from tutti.corpus.conversations.renderers import OWN, own_template, renderer_of
from tutti.corpus.conversations.template import REMEDY, TEMPLATES
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.judgements.intervals import Proportion
from tutti.model.footprint import Footprint, footprint
from tutti.model.heldout import HeldOut
from tutti.model.programs import records
from tutti.model.spec import ModelSpec, OptimizerSpec, Recorded, SpecError, StepSpec
from tutti.model.training import Initial, RoleModel, Training
from tutti.pipeline.definitions.checkpoints import begun_of, tokenizer_of
from tutti.pipeline.definitions.definition import StageContext
from tutti.pipeline.definitions.pretraining import ANY, own_model
from tutti.pipeline.definitions.trainingstage import TrainingStage, leaf_rows, misfits
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.declared import declares, values
from tutti.pipeline.recipes.imports import INITIAL, TOKENIZER
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.keytypes import Positive
from tutti.pipeline.recipes.sections import JobKeys, ShardKeys, TokenizationSection
from tutti.pipeline.recipes.values import Inputs, Result, WorkStatus
from tutti.pipeline.recipes.view import View
from tutti.records.errors import CorpusError, InvalidManifest
from tutti.records.fields import Fields
from tutti.records.figures import DECIDED, LEFT_OUT, READ
from tutti.records.manifest import Kind, Manifest

FEWEST_POINTS = 4
TO_BE_MADE = Result("", manifest_key("to-be-made", 0, 1), ANY)
"""An input of a training of which only the memory matters."""
ACCURACY = "accuracy"
CALIBRATION: Mapping[str, str] = {ACCURACY: "accuracy {}", "calibration_error": "ECE {:.3f}"}
"""The figures of a model that predicts preferences."""

LATER = frozenset({"schedule", "decay_fraction", "beta1", "beta2"})
"""Keys of every job with an initial checkpoint that later versions added."""


@declares(
    *(OptimizerSpec, StepSpec, Training),
    without=("validate_every", "spikes"),
    learning_rate=3e-4,
    weight_decay=0.0,
    steps=None,
    rows=None,
    warmup=None,
    checkpoint_every=None,
)
class JobSection(JobKeys):
    """The keys of every job that goes on with a checkpoint."""

    later: ClassVar[frozenset[str]] = LATER

    length: Positive | None = Field(
        default=None, description="tokens per row; longer samples are left out; default: the context of the model"
    )

    @property
    def sharded(self) -> str:
        """The `shard` of the job."""
        return ""


@declares(HeldOut, Training, without=("spikes",))
class FinetuningSection(ShardKeys, JobSection):
    later = LATER | {"shard"}

    epochs: Positive | None = Field(default=None, description="number of passes over the samples, instead of steps")


class FinetuningStage(TrainingStage):
    """A stage with the roles `initial` and `data`, which is a manifest of the kind `reads`."""

    data: ClassVar[str]
    reads: ClassVar[Kind]
    rows_of_sample: ClassVar[int] = 1
    epochs: ClassVar[int] = 1
    """Default number of epochs, if a recipe gives neither steps nor epochs."""
    figures: ClassVar[Mapping[str, str]] = {}
    """The metrics on held-out samples that the summary shows, by their names in the curve, each as a format."""
    # No request tells the trainer's version; a change of the arithmetic of a step changes it.
    version = "finetuning-1"

    def program_parameters(self, view: View) -> Recorded:
        """The parameters of the program, which is named as the stage."""
        record = records()[self.name]
        assert record is not None
        return record(**values(record, view.section(JobSection)))

    def model(self, begun: ModelSpec) -> ModelSpec:
        """The model that is trained, by that of the checkpoint: without its value model."""
        return replace(begun, value_model=False)

    def length(self, section: Any, model: ModelSpec) -> int:
        """Tokens of a row; 0: as many as the context of the model."""
        return section.length or 0

    def roles_of_models(self) -> tuple[str, ...]:
        """The roles in the program that the initial checkpoint fills too."""
        return ()

    def models(self, asked: StageContext) -> tuple[RoleModel, ...]:
        """The checkpoints that the program reads, in the order of their roles."""
        return tuple(role_model(role, asked.one(INITIAL)) for role in self.roles_of_models())

    def rhythm(self, asked: StageContext) -> "Rhythm":
        """The number of steps, and the schedule of checkpoints and validations."""
        section = _section(asked.view)
        samples = section.microbatches * section.rows // self.rows_of_sample
        count = asked.one(self.data).count
        steps = section.steps or max(1, math.ceil((section.epochs or self.epochs) * count / samples))
        return Rhythm(steps, section.checkpoint_every or max(1, steps // 10), section.validate_every)

    def filled(self, section: Any, keys: Keys) -> Any:
        rows = leaf_rows(keys, section.rows, section.batch, section.microbatches)
        epochs = section.epochs if section.epochs or section.steps else self.epochs
        return section.model_copy(update={"rows": rows, "batch": None, "epochs": epochs})

    def job_problems(self, view: View, section: JobSection) -> Iterator[InvalidField]:
        """The errors in the keys that all such jobs have, or in the rest of the recipe for any of them."""
        yield from misfits(view.instance.keys, section)
        if view.recipe.template is None:
            known = ", ".join((*TEMPLATES, OWN))
            expected = f"one of {known} at the top of the recipe, as {self.name} trains on conversations"
            yield InvalidField("template", seen="nothing", expected=expected)
        elif view.recipe.template != OWN:
            yield from self._without_tokens(view)

    def _without_tokens(self, view: View) -> Iterator[InvalidField]:
        """The error of a tokenizer of the same recipe that will lack the role tokens of the template."""
        back = list(view.back())
        made = next((each for each in back if isinstance(each.instance.section, TokenizationSection)), None)
        if made is None or TOKENIZER in made.instance.inputs or any(map(_converts, back)):
            return
        section = made.section(TokenizationSection)
        if not (section.reserve or section.of):
            seen, name = f"false, and {self.name} without convert", view.recipe.template
            expected = f"true, or a stage sft with convert: the tokenizer needs the role tokens of {name}"
            yield InvalidField(made.key("reserve"), seen=seen, expected=expected)

    def lookups(self, view: View, host: Host) -> Iterator[Callable[[], object]]:
        for name in view.instance.inputs.get(INITIAL, ()):
            if name.startswith("checkpoints/") and view.recipe.template is not None and not _converts(view):
                yield partial(self._look_up, view, name, host)

    def _look_up(self, view: View, name: str, host: Host) -> None:
        """Refuse a checkpoint whose tokenizer cannot render the template. Raises InvalidField."""
        try:
            found: Checkpoint = kind_of(Checkpoint).get(host.channel("committer"), name)
        except (NotFound, InvalidField):
            return  # it is refused as a resource
        initial = Result(name, found.manifest_key, "")
        begun = begun_of(view, INITIAL, initial, host)
        if version := tokenizer_of(begun, host):
            initial = replace(initial, begun=replace(begun, tokenizer=version))
            self._template(StageContext(view, {INITIAL: (initial,)}), host)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section = _section(view)
        yield from self.job_problems(view, section)
        if section.steps is not None and section.epochs is not None:
            seen = f"{section.steps} steps, {section.epochs} epochs"
            yield view.refused("epochs", seen=seen, expected="one of the two")
        if section.rows is not None and section.rows % self.rows_of_sample:
            expected = f"a multiple of {self.rows_of_sample}: the two answers of a pair are rows beside each other"
            yield view.refused("rows", seen=section.rows, expected=expected)

    def request(self, asked: StageContext) -> JobSpec:
        section, data = asked.view.section(JobSection), asked.one(self.data)
        training = self._training(asked)
        assert training.initial is not None
        return JobSpec(
            training=training.to_json(),
            training_digest=training.digest(),
            dataset_manifest_key=data.manifest_key,
            dataset_digest=data.content_digest,
            source=data.resource,
            leaves=training.step.leaves,
            steps=training.steps,
            data_parallel=section.ranks,
            shard=section.sharded,
            shrink=section.shrink,
            attempts=section.attempts,
            initial=training.initial.checkpoint,
            tokenizer_key=tokenizer_key(training.tokenizer),
            models=[
                WireModel(role=each.role, checkpoint=each.checkpoint, state_digest=each.state_digest)
                for each in training.models
            ],
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        # The names of checkpoints do not decide; their states are among the inputs.
        return {"training": replace(self._training(asked), initial=None, models=()).digest()}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the model and the tokenizer of the checkpoint, and how many samples there are. Raises InvalidField."""
        initial, data = asked.one(INITIAL), asked.one(self.data)
        begun = begun_of(asked.view, INITIAL, initial, host)
        version = tokenizer_of(begun, host)
        if not version:
            seen, expected = f"{begun.dataset} without a tokenizer", "a checkpoint of a known dataset"
            raise self._refused(asked.view, initial, seen, expected)
        initial = replace(initial, begun=self.converted(asked, replace(begun, tokenizer=version), host))
        data = replace(data, count=self._count(asked.view, data, host))
        asked = replace(asked, inputs={**asked.inputs, INITIAL: (initial,), self.data: (data,)})
        begun = replace(_begun(asked), template=self._template(asked, host))
        return {**asked.inputs, INITIAL: (replace(initial, begun=begun),)}

    def converted(self, asked: StageContext, begun: Begun, host: Host) -> Begun:
        """The checkpoint that it begins with, as it is once it is extended; nothing is unless overridden."""
        return begun

    def amount(self, view: View, pages: int) -> float:
        """Rows that are read; 0 where the steps follow from the samples."""
        section = _section(view)
        return float((section.steps or 0) * section.microbatches * (section.rows or 0))

    def footprint(self, view: View, begun: ModelSpec | None = None) -> Footprint | None:
        """The memory of training the model of the checkpoint, or the one that the recipe trains before."""
        model, section = begun or own_model(view), view.section(JobSection)
        if model is None:
            return None
        filled = replace(TO_BE_MADE, count=1, begun=Begun(model, ANY, ANY, template=ANY))
        asked = StageContext(view, {role.name: (filled,) for role in self.roles})
        try:
            return footprint(self._training(asked), section.ranks, section.sharded)
        except InvalidField:
            return None  # it is refused for the same reason when the checkpoint is there

    def unforeseeable(self, view: View) -> str:
        return "" if _section(view).steps else "its steps follow from how many samples there are"

    def settled(self, work: Any, host: Host) -> WorkStatus:
        seen = super().settled(work, host)
        if seen.result is None:
            return seen
        request = GetCurveRequest(name=checkpoint_of(seen.result.manifest_key), max_points=FEWEST_POINTS)
        curve = CommitterServiceStub(host.channel("committer")).GetCurve(request)
        last = {each.name: each.values[-1].value for each in curve.metrics if each.values}
        held_out = curve.validations[-1].tokens if curve.validations else 0
        return replace(seen, summary="; ".join(filter(None, (seen.summary, *self._measured(last, held_out)))))

    def _measured(self, last: Mapping[str, float], held_out: int) -> Iterator[str]:
        """The figures on `held_out` samples by their newest values, and how many samples were left out of all."""
        found: dict[str, Any] = {name: last[name] for name in self.figures if name in last}
        if ACCURACY in found:
            decided = int(last.get(DECIDED, 0))
            share = Proportion.of(found[ACCURACY] * decided, decided)
            found[ACCURACY] = share if decided else f"{found[ACCURACY]:.1%} of an unknown number of pairs"
        if found:
            of = f"{held_out:,} " if held_out else ""
            words = [self.figures[name].format(each) for name, each in found.items()]
            yield f"on {of}held-out samples: {', '.join(words)}"
        if out := int(last.get(LEFT_OUT, 0)):
            read = int(last.get(READ, 0))
            yield f"{out:,} of {read:,} samples were left out: `tutti jobs show` says why"

    def _training(self, asked: StageContext) -> Training:
        section, initial, data = asked.view.section(JobSection), asked.one(INITIAL), asked.one(self.data)
        begun, rhythm = _begun(asked), self.rhythm(asked)
        steps, name = rhythm.steps, asked.view.recipe.template
        assert name is not None
        warmup = steps // 20 if section.warmup is None else section.warmup
        checkpoint = checkpoint_of(initial.manifest_key)
        try:
            return Training(
                model=self.model(begun.model),
                optimizer=OptimizerSpec(
                    **{**values(OptimizerSpec, section), "steps": steps, "warmup_steps": min(steps, warmup)},
                    decay_end=steps + 1,
                ),
                step=StepSpec(**values(StepSpec, section), length=self.length(section, begun.model)),
                dataset=data.content_digest,
                checkpoint_every=rhythm.checkpoint_every,
                validate_every=rhythm.validate_every,
                audit_every=section.audit_every,
                program=self.name,
                initial=Initial(checkpoint, initial.content_digest),
                tokenizer=begun.tokenizer,
                template=begun.template if name == OWN else TEMPLATES[name].digest,
                part=data.part,
                models=self.models(asked),
                program_parameters=self.program_parameters(asked.view),
                conversion=begun.conversion,
            )
        except SpecError as error:
            raise asked.view.refused("", seen=str(error), expected="a training that can work") from error

    def _count(self, view: View, data: Result, host: Host) -> int:
        """The number of samples of a manifest, or of the part of it that is read. Raises InvalidField."""
        try:
            manifest = Manifest.decode(host.blobs.get(data.manifest_key), expected=self.reads)
            fields = Fields(manifest.body, path="body", error=InvalidManifest)
            count = fields.nested("parts").count(data.part) if data.part else Lines.of(manifest).count
        except (BlobMissing, CorpusError) as error:
            expected = f"{self.reads} that are there: {error}"
            raise view.refused(f"from.{self.data}", seen=data.resource, expected=expected) from error
        if count == 0:
            seen = f"no {self.reads} in the part {data.part}" if data.part else f"no {self.reads}"
            expected = "at least one; change its `split`, or give more" if data.part else "at least one"
            raise view.refused(f"from.{self.data}", seen=seen, expected=expected)
        return count

    def _template(self, asked: StageContext, host: Host) -> str:
        """Return the digest of the template of the recipe.

        Raises InvalidField for a tokenizer that does not reserve its role tokens, or that came without one.
        """
        initial, begun, name = asked.one(INITIAL), _begun(asked), asked.view.recipe.template
        assert name is not None
        try:
            data = host.blobs.get(tokenizer_key(begun.tokenizer))
            tokenizer = BytePairTokenizer.load(data, expected_version=begun.tokenizer)
            digest = own_template(tokenizer).digest if name == OWN else TEMPLATES[name].digest
            _ = renderer_of(digest, tokenizer).end
            return digest
        except (BlobMissing, TokenizerError) as error:
            seen, expected = f"the tokenizer {begun.tokenizer}", f"one that is there: {error}"
            raise self._refused(asked.view, initial, seen, expected) from error
        except TemplateError as error:
            expected = f"a tokenizer that reserves the role tokens of {name}: {REMEDY}"
            if name == OWN:
                expected = f"one with a chat template of its own: {error}"
            raise self._refused(asked.view, initial, f"the tokenizer {begun.tokenizer}", expected) from error

    def _refused(self, view: View, initial: Result, seen: str, expected: str) -> InvalidField:
        name = checkpoint_of(initial.manifest_key)
        return view.refused(f"from.{INITIAL}", seen=f"{name} with {seen}", expected=expected)


@dataclass(frozen=True)
class Rhythm:
    """Steps of a training, and between two checkpoints or measurements."""

    steps: int
    checkpoint_every: int
    validate_every: int = 0


def role_model(role: str, checkpoint: Result) -> RoleModel:
    """A checkpoint in a role of the program."""
    return RoleModel(role, checkpoint_of(checkpoint.manifest_key), checkpoint.content_digest)


def _converts(view: View) -> bool:
    """True if a stage extends the tokenizer of the checkpoint that it begins with."""
    return getattr(view.instance.section, "convert", None) is not None


def _section(view: View) -> FinetuningSection:
    return view.section(FinetuningSection)


def _begun(asked: StageContext) -> Begun:
    """The checkpoint that it begins with, and its tokenizer; known since `today`."""
    begun = asked.one(INITIAL).begun
    assert begun is not None
    return begun
