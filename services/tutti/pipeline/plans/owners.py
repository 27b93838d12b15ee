"""The owners of stages: the calls by which a run asks them.

Promises: nothing is kept here; a call that may not have arrived can be sent again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from google.protobuf.message import Message

from tutti.chassis.errors import DeadlineExceeded, InvalidField, NotFound, Refused
from tutti.chassis.identity.cause import caused_by, current_cause
from tutti.chassis.rpc import kinds
from tutti.chassis.service import Host
from tutti.checkpoints.bodies import identity_of
from tutti.checkpoints.keys import manifest_key
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    CheckpointState,
    CreateImportRequest,
    ImportSpec,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import STATE_DONE, GetRequest, State
from tutti.contracts.ingest.v1 import DigestInputRequest, IngestSpec
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.pipeline.v1 import RunFigures
from tutti.pipeline.definitions.definition import StageContext, StageDef, with_article
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.recipes.instance import moved, parted
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import CommonKeys
from tutti.pipeline.recipes.values import Inputs, Result, Source, Sources, WorkStatus
from tutti.pipeline.recipes.view import View

TO_BE_MADE = Result("", manifest_key("to-be-made", 0, 1), "to be made")
"""The first input of a stage whose parameters are judged before anything is made."""


class Owners:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._ingest = IngestServiceStub(host.channel("ingest"))
        self._committer = CommitterServiceStub(host.channel("committer"))

    def source(
        self, spec: IngestSpec, key: str, shown: str, *, seconds: float, files: int = 0, sample: int = 0
    ) -> Source:
        """The content of a folder now, read whole. Raises InvalidField naming the recipe's key, DeadlineExceeded.

        `shown` is the path as the recipe has it; `files` is how many of the files to
        read (0: all), `sample` how many records to read as an ingest would.
        """
        try:
            found = self._ingest.DigestInput(DigestInputRequest(spec=spec, files=files, sample=sample), timeout=seconds)
        except DeadlineExceeded as problem:
            raise DeadlineExceeded(
                f"the pages in {shown} were not read within {seconds:.0f} s; nothing was recorded"
            ) from problem
        except InvalidField as problem:
            expected = problem.metadata.get("expected", problem.message)
            raise InvalidField(key, seen=shown, expected=expected) from problem
        if not found.files:
            raise InvalidField(
                key,
                seen=shown,
                expected="a folder that holds pages (HTML, Markdown, plain text), JSON lines, Parquet or WARC; "
                "this one is empty",
            )
        return Source(
            spec.input_path,
            found.input_digest,
            found.logic_version,
            files=found.files,
            nbytes=found.bytes,
            sample=found.sample if found.HasField("sample") else None,
        )

    def model(self, path: str, key: str, shown: str, *, seconds: float) -> Source:
        """The folder of a model now, read whole. Raises InvalidField naming the recipe's key, DeadlineExceeded."""
        request = CreateImportRequest(name="imports/checked", spec=ImportSpec(folder=path), validate_only=True)
        try:
            found = getattr(self._committer.CreateImport(request, timeout=seconds), "import")
        except DeadlineExceeded as problem:
            message = f"the model in {shown} was not read within {seconds:.0f} s; nothing was recorded"
            raise DeadlineExceeded(message) from problem
        except InvalidField as problem:
            raise InvalidField(key, seen=shown, expected=problem.metadata.get("expected", problem.message)) from problem
        return Source(path, found.folder_digest, "")

    def resolved(self, recipe: Recipe) -> Recipe:
        """The same with every classifier as NAME@DIGEST. Raises InvalidField naming the key."""
        return recipe.changed("classifiers", lambda key, asked: self._classifiers(asked, key))

    def _classifiers(self, references: Sequence[str], key: str) -> list[str]:
        return sorted({self._classifier(reference, key) for reference in references})

    def _classifier(self, reference: str, key: str) -> str:
        name, _, digest = reference.partition("@")
        try:
            found = self._ingest.GetClassifier(GetRequest(name=f"classifiers/{name}"))
        except (NotFound, InvalidField) as problem:
            raise InvalidField(
                key,
                seen=reference,
                expected="a classifier that was trained here, as `tutti classifiers ls` has it; "
                f"`tutti classifiers train RECIPE` trains one by a recipe with name: {name or '…'}",
            ) from problem
        if found.state != STATE_DONE:
            state = State.Name(found.state).removeprefix("STATE_").lower()
            raise InvalidField(key, seen=reference, expected=f"a classifier that is trained; this one is {state}")
        if digest not in ("", found.model_digest):
            raise InvalidField(key, seen=reference, expected=f"{name}@{found.model_digest}")
        return f"{name}@{found.model_digest}"

    def judgements(self, recipe: Recipe, sources: Sources) -> Iterator[Callable[[], object]]:
        """Checks of a recipe that only owners can do: URLs, rules, engine, similarity, the tokenizer's pattern.

        Each is a call that raises InvalidField where something is wrong.
        """
        for node in graph.nodes(recipe):
            if any("/" in ref for ref in node.reads):
                yield partial(self.resources, node)
            yield from node.stage.lookups(node.view, self._host)
            for question in node.stage.questions(node.view):
                yield partial(self._judge, node, question, sources)

    def _judge(self, node: Node, question: View, sources: Sources) -> None:
        """Ask a stage's owner without effect, on behalf of nobody: a placeholder for an input has no tenant."""
        first = node.stage.roles[:1]
        inputs = {role.name: (TO_BE_MADE,) for role in first}
        asked = StageContext(question, inputs, None if first else sources.get(node.place))
        try:
            with caused_by(replace(current_cause(), principal=None)):
                self._create(node.stage, "", node.stage.request(asked), validate_only=True)
        except InvalidField as problem:
            field = problem.metadata.get("field", "").removeprefix("spec.")
            own = field in CommonKeys.model_fields and field not in node.stage.section.model_fields
            raise moved(problem, field if own else question.key(node.stage.spec_key(field))) from problem

    def fits(self, recipe: Recipe, node: Node, inputs: Inputs) -> None:
        """Refuse a stage after which the others of its dataset could not be done. Raises InvalidField."""
        every = graph.nodes(recipe)
        dataset = graph.dataset_of(every, node)
        own = next((role.name for role in node.stage.roles if dataset in node.inputs.get(role.name, ())), "")
        if not node.stage.expensive or own not in inputs:
            return
        for other in every:
            if other.name != node.name and graph.dataset_of(every, other) == dataset:
                other.stage.fits(other.view, inputs[own][0], self._host)

    def foreseen(self, recipe: Recipe) -> None:
        """Refuse what the recipe alone shows to be impossible. Raises InvalidField."""
        for node in graph.nodes(recipe):
            node.stage.foreseen(node.view, self._host)

    def resources(self, node: Node) -> dict[str, Result]:
        """The results that a stage takes from elsewhere, by the name of the resource. Raises InvalidField."""
        return {
            parted(ref)[0]: self._resource(node.view.key(f"from.{role}"), *parted(ref))
            for role, refs in node.inputs.items()
            for ref in refs
            if "/" in ref
        }

    def _resource(self, key: str, name: str, part: str) -> Result:
        kind = kinds.named(name.partition("/")[0])
        try:
            found = kind.get(self._host.channel(kind.owner), name)
        except (NotFound, InvalidField) as problem:
            raise InvalidField(key, seen=name, expected=f"one of `tutti {kind.plural} ls`") from problem
        if isinstance(found, Checkpoint) and found.state != CHECKPOINT_STATE_COMMITTED:
            state = CheckpointState.Name(found.state).removeprefix("CHECKPOINT_STATE_").lower()
            expected = "a checkpoint that is committed; see `tutti checkpoints ls`"
            raise InvalidField(key, seen=f"{name}, which is {state}", expected=expected)
        if isinstance(found, Checkpoint) and found.suspect:
            expected = "a checkpoint that is not suspect; see `tutti checkpoints ls`"
            raise InvalidField(key, seen=f"{name}, which is suspect: {found.suspect}", expected=expected)
        if not kind.manifest_key(found):
            raise InvalidField(key, seen=name, expected=f"{with_article(kind.message)} that is done")
        if part and part not in (known := [each.name for each in found.parts]):
            parts = f"one of its parts: {', '.join(known)}" if known else f"{name}, which has no parts"
            raise InvalidField(key, seen=f"{name}.{part}", expected=parts)
        digest = identity_of(found) if isinstance(found, Checkpoint) else kind.content_digest(found)
        return Result(name, kind.manifest_key(found), digest)

    def as_today(self, recipe: Recipe, sources: Sources) -> Sources:
        """The folders of an earlier run, for the logic that reads them today."""
        today = dict(sources)
        for node in graph.nodes(recipe):
            if node.folder is not None and node.stage.surveyed and node.place in today:
                spec = node.stage.request(node.asked({}, sources))
                version = self._create(node.stage, "", spec, validate_only=True)
                today[node.place] = replace(today[node.place], logic_version=version)
        return today

    def today(self, node: Node, inputs: Inputs, sources: Sources) -> StageContext:
        """The context of a stage with the current state of its inputs and their version at the owners. Raises
        InvalidField.
        """
        asked = node.asked(inputs, sources)
        asked = replace(asked, inputs=node.stage.today(asked, self._host))
        return replace(asked, logic_version=self._logic_version(node.stage, asked))

    def _logic_version(self, stage: StageDef, asked: StageContext) -> str:
        """The version of the stage's logic today, as its owner says."""
        if stage.version:
            return stage.version
        if stage.surveyed and asked.source is not None and asked.source.logic_version:
            return asked.source.logic_version
        return self._create(stage, "", stage.request(asked), validate_only=True)

    def create(self, stage: StageDef, name: str, spec: Message) -> None:
        """Ask for the stage's work; the same again changes nothing."""
        self._create(stage, name, spec, validate_only=False)

    def _create(self, stage: StageDef, name: str, spec: Message, *, validate_only: bool) -> str:
        """The logic version that the owner has."""
        made = stage.kind.create(self._host.channel(stage.kind.owner), name, spec, validate_only=validate_only)
        return stage.version or str(made.spec.logic_version)

    def pages(self, stage: StageDef, name: str) -> int:
        """The number of pages of a work; 0 if unknown."""
        try:
            return stage.pages(stage.kind.get(self._host.channel(stage.kind.owner), name))
        except NotFound:
            return 0

    def see(self, node: Node, name: str) -> WorkStatus | None:
        """The work of a stage, None when its owner has not heard of it."""
        stage = node.stage
        try:
            work = stage.kind.get(self._host.channel(stage.kind.owner), name)
        except NotFound:
            return None
        seen = stage.settled(work, self._host)
        if seen.result is None:
            return seen
        figures = RunFigures()
        figures.CopyFrom(stage.run_figures(work))
        figures.MergeFrom(seen.figures)
        summary, objection = seen.summary or stage.summary(work), stage.objection(node.view, work)
        return replace(seen, summary=summary, objection=objection, figures=figures)

    def before(self, stage: StageDef, result: Result) -> Iterator[Result]:
        """The intermediate results of a work that its owner still keeps."""
        return stage.on_the_way(result, self._host)

    def cancel(self, stage: StageDef, name: str) -> None:
        """End the stage's work; of ended or unknown work nothing changes."""
        try:
            stage.kind.cancel(self._host.channel(stage.kind.owner), name)
        except (NotFound, Refused):
            return
