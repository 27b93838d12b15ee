"""The life of a run, as pure steps from one recorded value to the next.

Promises: stages are done in order, one at a time; an ended run never changes again, but for its labels.
"""

from dataclasses import replace
from datetime import datetime

from tutti.chassis.store.clipping import clipped
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    STATE_PENDING,
    STATE_RUNNING,
    State,
)
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunSpec, Stage, StageInput
from tutti.pipeline.plans import graph
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Inputs, Result, Reuse, Source, Sources

ENDED = (STATE_DONE, STATE_FAILED, STATE_CANCELLED)
OPEN = (STATE_PENDING, STATE_RUNNING)
NO_FIGURES = RunFigures()


def created(name: str, recipe: Recipe, sources: Sources, now: datetime, origin: str = "") -> Run:
    """`origin` names the recipe that the first of these runs had, where this one carries it out again."""
    digest = recipe.digest()
    origin = "" if origin == digest else origin
    spec = RunSpec(recipe=recipe.canonical(), recipe_digest=digest, title=recipe.name, origin=origin)
    run = Run(name=name, spec=spec, state=STATE_RUNNING)
    for node in graph.nodes(recipe):
        stage = run.stages.add(name=node.name, kind=node.stage.name, state=STATE_PENDING)
        if node.folder is not None and (folder := sources.get(node.place)):
            stage.input_files, stage.input_bytes = folder.files, folder.nbytes
    run.started_at.FromDatetime(now)
    return run


def event(before: Run | None, run: Run) -> Run:
    """The event of a change: the run without its recipe and its note, and only the stages that changed.

    So an event is small however many stages there are, and has no text of a person beyond a title.
    """
    known = {} if before is None else {stage.name: stage for stage in before.stages}
    changed = [stage for stage in run.stages if stage.state != STATE_PENDING and stage != known.get(stage.name)]
    told = Run()
    told.CopyFrom(run)
    told.spec.ClearField("recipe")
    if told.labels.note:
        told.labels.ClearField("note")
    del told.stages[:]
    told.stages.extend(changed)
    return told


def sized(folder: Source, run: Run, reader: str) -> Source:
    """A folder with how much was in it when a run was created, of which this stage reads it."""
    stage = next((each for each in run.stages if each.name == reader), Stage())
    return replace(folder, files=stage.input_files, nbytes=stage.input_bytes)


def current(run: Run) -> Stage | None:
    """The first stage that is not done."""
    return next((stage for stage in run.stages if stage.state != STATE_DONE), None)


def results(run: Run) -> dict[str, Result]:
    """The results of the stages that are done, by name.

    A run that version 0.1 began has no filter: what was read is what was chosen.
    """
    done = {stage.name: result_of(stage) for stage in run.stages if stage.state == STATE_DONE}
    if "filter" not in (stage.name for stage in run.stages) and "ingest" in done:
        done["filter"] = done["ingest"]
    return done


def result_of(stage: Stage) -> Result:
    return Result(stage.resource, stage.manifest_key, stage.content_digest, derivation=stage.derivation)


def begun(
    run: Run, name: str, resource: str, reuse: Reuse, reads: Inputs, reason: str, derivation: str, now: datetime
) -> Run:
    """The stage is about to be asked for under this name."""
    after, stage = _at(run, name)
    reuse_key = reuse.key
    del stage.inputs[:]
    stage.inputs.extend(
        StageInput(role=role, resource=each.resource, part=each.part)
        for role, several in reads.items()
        for each in several
    )
    stage.state, stage.resource, stage.reuse_key, stage.reason = STATE_RUNNING, resource, reuse_key, reason
    stage.derivation = derivation
    stage.started_at.FromDatetime(now)
    stage.resumptions = 0
    return after


def resumed(run: Run, name: str) -> Run:
    """Somebody who did not begin the stage goes on with it: nobody may have, for a while."""
    after, stage = _at(run, name)
    stage.resumptions += 1
    return after


def reused(
    run: Run,
    name: str,
    result: Result,
    reuse: Reuse,
    reads: Inputs,
    summary: str,
    now: datetime,
    figures: RunFigures = NO_FIGURES,
) -> Run:
    """An earlier result serves."""
    before = begun(run, name, result.resource, reuse, reads, "", result.derivation, now)
    after = finished(before, name, result, summary, now, figures)
    _stage(after, name).reused = True
    return after


def finished(run: Run, name: str, result: Result, summary: str, now: datetime, figures: RunFigures = NO_FIGURES) -> Run:
    """The stage has its result; with the last one the run is done.

    The figures of a training replace those of the one before.
    """
    after, stage = _at(run, name)
    stage.state, stage.reason, stage.summary = STATE_DONE, "", clipped(summary)
    stage.manifest_key, stage.content_digest = result.manifest_key, result.content_digest
    stage.ended_at.FromDatetime(now)
    _figured(after, figures)
    if current(after) is None:
        after.state = STATE_DONE
        after.ended_at.FromDatetime(now)
    return after


def waits(run: Run, name: str, reason: str) -> Run:
    """The stage goes on; its owner says what it waits for."""
    after, stage = _at(run, name)
    stage.reason = clipped(reason)
    return after


def ended(run: Run, state: State.ValueType, reason: str, now: datetime, figures: RunFigures = NO_FIGURES) -> Run:
    """Failed or cancelled, the stage that was under way too."""
    after = _figured(_copy(run), figures)
    stage = current(after)
    if stage is not None and stage.state == STATE_RUNNING:
        stage.state, stage.reason = state, clipped(reason)
        stage.ended_at.FromDatetime(now)
    where = f"{stage.name}: " if stage is not None and state == STATE_FAILED else ""
    after.state, after.reason = state, clipped(f"{where}{reason}")
    after.ended_at.FromDatetime(now)
    return after


def _figured(run: Run, more: RunFigures) -> Run:
    """The same run, with the figures of one more stage."""
    if more.HasField("training"):
        run.figures.ClearField("training")
    if more != NO_FIGURES:
        run.figures.MergeFrom(more)
    return run


def _at(run: Run, name: str) -> tuple[Run, Stage]:
    after = _copy(run)
    return after, _stage(after, name)


def _stage(run: Run, name: str) -> Stage:
    return next(stage for stage in run.stages if stage.name == name)


def _copy(run: Run) -> Run:
    if run.state in ENDED:
        raise ValueError(f"{run.name} has ended; nothing changes it")
    after = Run()
    after.CopyFrom(run)
    return after
