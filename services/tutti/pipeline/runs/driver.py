"""The driver of runs: reconciles one run, that is, makes its next state transition.

Promises: the name of a stage's resource is recorded before its owner is asked, so a run that is stopped anywhere asks
for the same again; an answer is recorded only where the stage still waits for it.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tutti.chassis.errors import AlreadyExists, CorruptRow, InvalidField, Refused, TooLarge, declare
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import RETRYING, Trouble
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run, RunFigures, Stage
from tutti.pipeline.definitions import evidence
from tutti.pipeline.definitions.definition import StageContext, StageDef
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.plans.derivation import derivation_of, is_judged_alone
from tutti.pipeline.plans.graph import Node, reuse_of
from tutti.pipeline.plans.owners import Owners
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Inputs, Result, Reuse, Sources, WorkStatus
from tutti.pipeline.runs import transitions
from tutti.pipeline.runs.tables import Tables
from tutti.pipeline.runs.tenancy import belongs, own_key

declare({"RESULT_REFUSED": "a stage is done, but the recipe does not continue with its result; the message says why"})
KEPT = "kept, since it was judged: judgements that shaped its policy have changed since"


@dataclass(frozen=True)
class EarlierResult:
    """An earlier result of a stage, or why there is none that serves; `reads` are the inputs that decide it.

    `derivation` of what the stage makes; "" where no judgement shapes it, and for a campaign before it has a name.
    """

    reuse: Reuse
    reads: Inputs
    result: Result | None = None
    why: str = ""
    summary: str = ""
    derivation: str = ""
    figures: RunFigures = field(default_factory=RunFigures)


_read = lru_cache(maxsize=64)(reading.read)


@dataclass(frozen=True)
class _View:
    run: Run
    sources: Sources
    cancel: bool

    @property
    def recipe(self) -> Recipe:
        return _read(self.run.spec.recipe)

    def node(self, stage: Stage) -> Node:
        return graph.node_of(self.recipe, stage.name)


class Driver:
    def __init__(self, host: Host, tables: Tables, owners: Owners) -> None:
        self._host, self._tables, self._owners = host, tables, owners
        self._followed: dict[str, set[str]] = {}
        """Resources of open runs that were asked for, or found under way, since this process began."""

    def open(self, unit: Unit) -> list[str]:
        """Return the runs to advance, and forget which resources of other runs were followed."""
        names = self._tables.open(unit)
        self._followed = {name: self._followed[name] for name in names if name in self._followed}
        return names

    def advance(self, name: str) -> bool | None:
        """One step. Raises Problem when an owner cannot be reached."""
        view = self._host.units.run(lambda unit: self._view(unit, name))
        if view.cancel:
            self._cancel(view)
            return None
        stage = transitions.current(view.run)
        if view.run.state in transitions.ENDED or stage is None:
            return None
        try:
            return self._begin(view, stage) if stage.state == STATE_PENDING else self._follow(view, stage)
        except (InvalidField, Refused, AlreadyExists, TooLarge, CorruptRow) as problem:
            message = problem.message
            self._change(name, stage, lambda unit, run: transitions.ended(run, STATE_FAILED, message, unit.now))
            return None

    def tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        """Record why a run is not advanced, at its current stage; a final trouble fails the run."""
        run = self._tables.runs.lock(unit, name)
        stage = transitions.current(run)
        if run.state in transitions.ENDED or stage is None:
            return
        if trouble is None:
            if stage.reason.startswith(RETRYING):
                self._tables.runs.put(unit, transitions.waits(run, stage.name, ""))
        elif trouble.final:
            self._tables.runs.put(unit, transitions.ended(run, STATE_FAILED, trouble.reason, unit.now))
        else:
            self._tables.runs.put(unit, transitions.waits(run, stage.name, trouble.reason))

    def move(self, name: str) -> None:
        """Tell the owner of work that goes on where its input is by now. Raises Problem while it is away."""
        view = self._host.units.run(lambda unit: self._view(unit, name))
        stage = transitions.current(view.run)
        if stage is None or stage.state != STATE_RUNNING or not view.node(stage).stage.movable:
            return
        if self._owners.see(view.node(stage), stage.resource) is not None:
            with contextlib.suppress(AlreadyExists):  # one of a version that could not be told
                self._ask(view, stage)

    def find(self, node: Node, recipe: Recipe, inputs: Inputs, sources: Sources) -> EarlierResult:
        """The earlier result of the stage, if it still exists.

        Raises InvalidField for a stage after which the recipe cannot go on.
        """
        self._owners.fits(recipe, node, inputs)
        stage, asked = node.stage, self._owners.today(node, inputs, sources)
        missed = EarlierResult(
            reuse_of(stage, asked), stage.decisive(asked.inputs), derivation=derivation_of(stage, asked)
        )
        found = self._stored(node, missed, missed.reuse.key)
        if found.result is None and missed.derivation and is_judged_alone(graph.nodes(recipe), node):
            kept = self._stored(node, missed, missed.derivation)
            return replace(kept, summary=f"{kept.summary}; {KEPT}") if kept.result is not None else found
        return found

    def _stored(self, node: Node, missed: EarlierResult, key: str) -> EarlierResult:
        """The result that is stored under a key, if it is still there."""
        stage = node.stage
        earlier = self._host.units.run(
            lambda unit: self._tables.result(unit, own_key(stage, key)) or self._tables.result(unit, key)
        )
        if earlier is None:
            return missed
        try:
            seen = self._owners.see(node, earlier.resource)
            if seen is None or seen.state != STATE_DONE:
                return replace(
                    missed, why=f"runs again: {'its result' if belongs(stage) else earlier.resource} is not there"
                )
            if stage.revisable and seen.result is not None:
                earlier = seen.result
            lacks = evidence.missing(self._host.blobs, stage, earlier, self._owners.before(stage, earlier))
        except CorruptRow as problem:
            return replace(missed, why=f"runs again: {problem.message}")
        if lacks:
            return replace(missed, why=f"runs again: {lacks}")
        if seen.objection:
            raise Refused("RESULT_REFUSED", seen.objection)
        derivation = missed.derivation or derivation_of(stage, StageContext(node.view), earlier.resource)
        return replace(
            missed, result=replace(earlier, derivation=derivation), summary=seen.summary, figures=seen.figures
        )

    def _view(self, unit: Unit, name: str) -> _View:
        run = self._tables.runs.get(unit, name)
        return _View(run, self._tables.sources_of(unit, name), self._tables.cancels_run(unit, name))

    def _begin(self, view: _View, stage: Stage) -> bool:
        node, name, run = view.node(stage), stage.name, view.run
        found = self.find(node, view.recipe, self._inputs(view, stage), view.sources)
        if found.result is not None:
            result = found.result

            def reused(unit: Unit, at: Run) -> Run:
                if result.derivation:
                    self._tables.keep_result(unit, own_key(node.stage, result.derivation), result)
                return transitions.reused(
                    at, name, result, found.reuse, found.reads, found.summary, unit.now, found.figures
                )

            self._change(run.name, stage, reused)
        else:
            resource = node.resource(run.name)
            self._followed.setdefault(run.name, set()).add(resource)
            derivation = found.derivation or derivation_of(node.stage, StageContext(node.view), resource)
            self._change(
                run.name,
                stage,
                lambda unit, at: transitions.begun(
                    at, name, resource, found.reuse, found.reads, found.why, derivation, unit.now
                ),
            )
        return True

    def _inputs(self, view: _View, stage: Stage) -> Inputs:
        node = view.node(stage)
        return node.given({**transitions.results(view.run), **self._owners.resources(node)})

    def _follow(self, view: _View, stage: Stage) -> bool | None:
        name, run = stage.name, view.run
        followed = self._followed.setdefault(run.name, set())
        if stage.resource not in followed:
            self._change(run.name, stage, lambda unit, at: transitions.resumed(at, name))
            followed.add(stage.resource)
        seen = self._owners.see(view.node(stage), stage.resource)
        if seen is None:
            return self._ask(view, stage)
        kind = view.node(stage).stage
        self._change(run.name, stage, lambda unit, at: self._answered(unit, at, stage, kind, seen))
        return True if seen.state == STATE_DONE else None

    def _ask(self, view: _View, stage: Stage) -> bool | None:
        node, name = view.node(stage), stage.name
        asked = self._owners.today(node, self._inputs(view, stage), view.sources)
        reuse, reads = reuse_of(node.stage, asked), node.stage.decisive(asked.inputs)
        if reuse.key != stage.reuse_key:
            # The owner was upgraded, or a page retracted, since the stage began: what it makes now has another key.
            derivation = derivation_of(node.stage, asked, stage.resource)
            self._change(
                view.run.name,
                stage,
                lambda unit, at: transitions.begun(at, name, stage.resource, reuse, reads, "", derivation, unit.now),
            )
            return True
        self._owners.create(node.stage, stage.resource, node.stage.request(asked))
        return None

    def _answered(self, unit: Unit, run: Run, stage: Stage, kind: StageDef, seen: WorkStatus) -> Run:
        if seen.result is not None:
            for key in filter(None, (stage.reuse_key, stage.derivation)):
                self._tables.keep_result(unit, own_key(kind, key), seen.result)
            if seen.objection:
                return transitions.ended(run, STATE_FAILED, seen.objection, unit.now)
            return transitions.finished(run, stage.name, seen.result, seen.summary, unit.now, seen.figures)
        if seen.state == STATE_FAILED:
            return transitions.ended(run, STATE_FAILED, seen.reason, unit.now, seen.figures)
        if seen.state == STATE_CANCELLED:
            return transitions.ended(run, STATE_CANCELLED, f"{seen.resource} was cancelled", unit.now, seen.figures)
        return transitions.waits(run, stage.name, seen.reason)

    def _change(self, name: str, stage: Stage, step: Callable[[Unit, Run], Run]) -> None:
        """Record a step, if the run and this stage are still where they were."""

        def change(unit: Unit) -> None:
            run = self._tables.runs.lock(unit, name)
            now = transitions.current(run)
            if run.state in transitions.ENDED or now is None or (now.name, now.state) != (stage.name, stage.state):
                return
            self._tables.runs.put(unit, step(unit, run))

        self._host.units.run(change)

    def _cancel(self, view: _View) -> None:
        for stage in view.run.stages:
            if stage.state in (STATE_CANCELLED, STATE_RUNNING) and stage.resource:
                self._owners.cancel(view.node(stage).stage, stage.resource)
        self._host.units.run(lambda unit: self._tables.cancelled(unit, view.run.name))
