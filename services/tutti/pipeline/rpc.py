"""The calls that the pipeline answers.

Promises: a recipe is checked whole, its folder included, before anything is recorded; a repeated call has its effect
once; what is recorded goes on without the caller.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.errors import CorruptRow, InvalidField, Problem
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store import crud
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.client import Client
from tutti.client.resources import list_all
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_PENDING, CancelRequest, GetRequest, ListRequest
from tutti.contracts.pipeline.v1 import (
    CheckRecipeRequest,
    CheckRecipeResponse,
    CreateRunRequest,
    CreateRunResponse,
    ListRecipeFilesRequest,
    ListRecipeFilesResponse,
    ListRunsResponse,
    PlanRerunsRequest,
    PlanRerunsResponse,
    RecipeProblem,
    Run,
    RunFigures,
    Stage,
    UpdateRunRequest,
)
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.pipeline.definitions.trainingstage import progress_of
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.forecast import expected
from tutti.pipeline.plans.owners import Owners
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Result, Sources
from tutti.pipeline.runs import labels, progress, reruns, transitions
from tutti.pipeline.runs.capacities import Capacities
from tutti.pipeline.runs.driver import Driver
from tutti.pipeline.runs.forecasts import Forecasts
from tutti.pipeline.runs.references import Earlier
from tutti.pipeline.runs.requests import Asked, reports
from tutti.pipeline.runs.tables import Tables

TRAINING_SECONDS = 2.0  # for the scheduler to say how far a training is, beside the run itself


class PipelineApi:
    def __init__(
        self,
        host: Host,
        tables: Tables,
        owners: Owners,
        earlier: Earlier,
        driver: Driver,
        wake: Callable[[str], None],
    ) -> None:
        self._host, self._tables, self._owners, self._driver, self._wake = host, tables, owners, driver, wake
        self._asked = Asked(host, tables, owners, earlier)
        self._forecasts, self._capacities = Forecasts(host, tables, owners), Capacities(host)
        self._scheduler = SchedulerServiceStub(host.channel("scheduler"))

    def CreateRun(self, request: CreateRunRequest, call: Call) -> CreateRunResponse:
        if request.name:
            check_name("runs", request.name)
        if not request.validate_only and (known := self._host.units.run(lambda unit: self._known(unit, request))):
            self._driver.move(known.name)
            return CreateRunResponse(run=self._viewed(known, call), warnings=self._capacities.warnings_of(known))
        recipe, sources = self._asked.read(request, call)
        origin = self._asked.origin(request)

        def unfinished(unit: Unit) -> Run | None:
            return None if request.name else self._unfinished(unit, recipe, sources, call.principal)

        if request.validate_only or self._host.units.run(unfinished) is None:
            warnings = self._capacities.check(recipe, lambda: self._reused(recipe, sources), wait=True)
        else:
            warnings = self._capacities.warnings(recipe)

        def create(unit: Unit) -> Run:
            name = request.name or self._tables.run_of_request(unit, request.request_id)
            run = None if name else unfinished(unit)
            if run is None:
                name = name or self._next_name(unit, recipe)
                new = self._tables.runs.find(unit, name) is None
                run = self._tables.runs.create(
                    unit, transitions.created(name, recipe, sources, unit.now, origin), request
                )
                if new:
                    self._tables.keep_sources(unit, name, sources)
            elif not request.again:  # which knows no newer place of its hosts
                self._tables.move_sources(unit, run.name, sources)
            woken = run.name
            unit.on_commit(lambda: self._wake(woken))
            return run

        if request.validate_only:
            made = transitions.created(request.name, recipe, sources, self._host.clock.now(), origin)
            return CreateRunResponse(run=made, warnings=warnings)
        run = self._host.units.run(create)
        self._driver.move(run.name)
        return CreateRunResponse(run=self._viewed(run, call), warnings=warnings)

    def _known(self, unit: Unit, request: CreateRunRequest) -> Run | None:
        """The run of a request that is repeated, whatever became of its folder and the machines; None for a new one.

        Raises AlreadyExists.
        """
        name = request.name or self._tables.run_of_request(unit, request.request_id)
        return self._tables.runs.repeated(unit, name, request) if name else None

    def _viewed(self, run: Run, call: Call) -> Run:
        return progress.kept(self._host.units.run(lambda unit: self._tables.runs.view(unit, run, call.principal)))

    def _unfinished(self, unit: Unit, recipe: Recipe, sources: Sources, who: Principal) -> Run | None:
        """The run of the same recipe over the same pages that has not ended, if any; hosts of a crawl may move."""
        for run in self._tables.runs.select(unit, recipe_digest=recipe.digest()):
            if run.state in transitions.ENDED or not self._tables.runs.is_whole_for(unit, run.name, who):
                continue
            before = self._tables.sources_of(unit, run.name)
            for node in graph.nodes(recipe):
                if node.hosts is not None:
                    before[node.place] = replace(before[node.place], path=sources[node.place].path)
            if before == sources:
                return run
        return None

    def _next_name(self, unit: Unit, recipe: Recipe) -> str:
        """Numbered, not random, so that the same history gives the same names."""
        prefix = f"runs/{recipe.digest().removeprefix('blake3:')[:12]}"
        number = 1
        while self._tables.runs.find(unit, f"{prefix}-{number}") is not None:
            number += 1
        return f"{prefix}-{number}"

    def GetRun(self, request: GetRequest, call: Call) -> Run:
        run = crud.get(self._host.units, self._tables.runs, request, call.principal, self._with_input)
        fields = _fields(request.read_mask)
        if not fields or "training" in fields:
            self._tell_training(request.name, run)
        return run

    def _with_input(self, unit: Unit, run: Run) -> Run:
        self._add_inputs(unit, [run])
        return run

    def _add_inputs(self, unit: Unit, runs: Sequence[Run]) -> None:
        """Add the paths of the folders, which neither the recipes nor an event have."""
        paths = self._tables.paths_of(unit, [run.name for run in runs])
        for run in runs:
            if run.name in paths and not any(stage.kind == "crawl" for stage in run.stages):
                run.input_path = paths[run.name]

    def _tell_training(self, name: str, run: Run) -> None:
        """Add the progress of the newest training of a run; what is kept stays if the scheduler does not answer."""
        job = progress.job_of(self._host.units.run(lambda unit: self._tables.runs.get(unit, name)))
        if not job:
            return
        try:
            found = self._scheduler.GetJob(GetRequest(name=job), timeout=TRAINING_SECONDS)
        except Problem:
            return
        run.training.CopyFrom(progress_of(found))

    def ListRuns(self, request: ListRequest, call: Call) -> ListRunsResponse:
        fields = _fields(request.read_mask)

        def add(runs: Sequence[Run]) -> None:
            if not fields or "training" in fields:
                self._add_progress(runs)
            if "input_path" in fields:
                self._host.units.run(lambda unit: self._add_inputs(unit, runs))

        return crud.list_page(self._host.units, self._tables.runs, request, ListRunsResponse, call.principal, add)

    def _add_progress(self, runs: Sequence[Run]) -> None:
        """Add the progress of runs that train; what is kept stays if the scheduler does not answer."""
        with contextlib.suppress(Problem):
            progress.fill(runs, lambda request: self._scheduler.ListJobs(request, timeout=TRAINING_SECONDS).jobs)

    def CancelRun(self, request: CancelRequest, call: Call) -> Run:
        check_name("runs", request.name)
        figures = RunFigures() if request.validate_only else self._trained(request.name)

        def cancel(unit: Unit) -> Run:
            run = self._tables.runs.lock(unit, request.name)
            if request.validate_only or run.state in transitions.ENDED:
                return run
            self._tables.ask_cancel(unit, run.name)
            unit.on_commit(lambda: self._wake(run.name))
            return self._tables.runs.put(
                unit, transitions.ended(run, STATE_CANCELLED, "cancelled on request", unit.now, figures)
            )

        return self._viewed(self._host.units.run(cancel), call)

    def _trained(self, name: str) -> RunFigures:
        """The figures of the training that is under way in a run; none without one, or if the scheduler is away."""
        job = progress.current(self._host.units.run(lambda unit: self._tables.runs.get(unit, name)))
        with contextlib.suppress(Problem):
            if job:
                found = self._scheduler.GetJob(GetRequest(name=job), timeout=TRAINING_SECONDS)
                return RunFigures(training=progress_of(found))
        return RunFigures()

    def UpdateRun(self, request: UpdateRunRequest, call: Call) -> Run:
        check_name("runs", request.name)
        wanted = labels.checked(request)
        return self._host.units.run(lambda unit: self._tables.label(unit, wanted, call.principal))

    def ListRecipeFiles(self, request: ListRecipeFilesRequest, call: Call) -> ListRecipeFilesResponse:
        return self._asked.files(request)

    def CheckRecipe(self, request: CheckRecipeRequest, call: Call) -> CheckRecipeResponse:
        if request.all_problems:
            problems, inputs, sound = self._asked.problems(request, call, self._capacities.problems)
            response = CheckRecipeResponse(problems=map(_problem, problems), inputs=inputs)
            if sound is not None:
                response.warnings.extend(self._capacities.warnings(sound))
                response.forecasts.extend(
                    expected(node) for node in graph.nodes(sound) if node.stage.step_tokens(node.view)
                )
            return response
        recipe, sources = self._asked.read(request, call)
        response = self._planned(request, recipe, sources)
        reused = [stage.name for stage in response.stages if stage.reused]
        response.warnings.extend(self._capacities.check(recipe, lambda: reused))
        return response

    def _reused(self, recipe: Recipe, sources: Sources) -> list[str]:
        """The names of the stages that have a result."""
        return [stage.name for stage in self._planned(CheckRecipeRequest(), recipe, sources).stages if stage.reused]

    def _planned(self, request: CheckRecipeRequest, recipe: Recipe, sources: Sources) -> CheckRecipeResponse:
        """The stages of a sound recipe, and whether they would be reused. Raises InvalidField."""
        response = CheckRecipeResponse(recipe=recipe.canonical(), recipe_digest=recipe.digest())
        response.inputs.extend(reports(recipe, sources))
        if "" in sources:
            response.input_files, response.input_bytes = sources[""].files, sources[""].nbytes
        results: dict[str, Result] = {}
        for node in graph.nodes(recipe):
            stage = Stage(name=node.name, kind=node.stage.name, state=STATE_PENDING)
            given = {**results, **self._owners.resources(node)}
            if all(each in given for each in node.reads):
                found = self._driver.find(node, recipe, node.given(given), sources)
                results |= {node.name: found.result} if found.result else {}
                stage.reuse_key, stage.reused = found.reuse.key, found.result is not None
                stage.reason = "reused" if found.result else found.why or "runs: nothing like it was made before"
                if found.result:
                    stage.resource, stage.manifest_key = found.result.resource, found.result.manifest_key
                    stage.content_digest = found.result.content_digest
            else:
                stage.reason = "runs, or is reused if the stages before it give what they gave before"
            response.stages.append(stage)
        if request.forecast:
            response.forecasts.extend(self._forecasts.of(recipe, sources, results))
        return response

    def PlanReruns(self, request: PlanRerunsRequest, call: Call) -> PlanRerunsResponse:
        def whole(unit: Unit) -> list[Run]:
            listed = self._tables.runs.readable(unit, call.principal)
            if listed.damaged:
                raise CorruptRow(listed.damaged[0])
            return [each for each in listed.found if self._tables.runs.is_whole_for(unit, each.name, call.principal)]

        every = sorted(self._host.units.run(whole), key=lambda run: run.started_at.ToNanoseconds())
        datasets = list_all(Client.of_channels(self._host.channel), "datasets", fields=("name", "tokenizer"))
        tokenizers = {each.name: each.tokenizer for each in datasets}

        def planned(name: str) -> CheckRecipeResponse:
            again = CheckRecipeRequest(again=name)
            return self._planned(again, *self._asked.read(again, call))

        return PlanRerunsResponse(reruns=reruns.plans(every, request, tokenizers, planned))


def _fields(mask: FieldMask) -> set[str]:
    """Return the fields of which a mask asks for all or a part; none if it asks for everything."""
    return {path.partition(".")[0] for path in mask.paths}


def _problem(problem: InvalidField) -> RecipeProblem:
    seen, expected = (problem.metadata.get(name, "") for name in ("seen", "expected"))
    return RecipeProblem(key=problem.field, seen=seen, expected=expected or problem.message)
