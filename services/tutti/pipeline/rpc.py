"""The calls that the pipeline answers.

Promises: a recipe is checked whole, its folder included, before anything is recorded; a repeated call has its effect
once; what is recorded goes on without the caller.
"""

import json
import os.path
from collections.abc import Callable
from dataclasses import replace

from tutti.chassis import crud
from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.required import required
from tutti.chassis.resources import check_name
from tutti.chassis.service import Host
from tutti.chassis.unit import Unit
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_PENDING, CancelRequest, GetRequest, ListRequest
from tutti.contracts.ingest.v1 import IngestSpec
from tutti.contracts.pipeline.v1 import (
    CheckRecipeRequest,
    CheckRecipeResponse,
    CreateRunRequest,
    CreateRunResponse,
    ListRunsResponse,
    Run,
    Stage,
)
from tutti.pipeline import recipe as recipes
from tutti.pipeline import saga
from tutti.pipeline.driver import Driver
from tutti.pipeline.owners import Owners
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import USES, Result, Source, StageName, given, stages_of
from tutti.pipeline.tables import Tables

ANSWER_SECONDS = 1.0  # of a caller's time, for what follows the reading


class PipelineApi:
    def __init__(self, host: Host, tables: Tables, owners: Owners, driver: Driver, wake: Callable[[str], None]) -> None:
        self._host, self._tables, self._owners = host, tables, owners
        self._driver, self._wake = driver, wake

    def CreateRun(self, request: CreateRunRequest, call: Call) -> CreateRunResponse:
        if request.name:
            check_name("runs", request.name)
        recipe, source = self._read(request, call)

        def create(unit: Unit) -> Run:
            name = request.name or self._tables.run_of_request(unit, request.request_id)
            run = None if name else self._unfinished(unit, recipe, source)
            if run is None:
                name = name or self._next_name(unit, recipe)
                new = self._tables.runs.find(unit, name) is None
                run = self._tables.runs.create(unit, saga.created(name, recipe, unit.now), request)
                if new:
                    self._tables.keep_source(unit, name, source)
            woken = run.name
            unit.on_commit(lambda: self._wake(woken))
            return run

        if request.validate_only:
            made = saga.created(request.name, recipe, self._host.clock.now())
            return CreateRunResponse(run=made)
        return CreateRunResponse(run=self._host.units.run(create))

    def _unfinished(self, unit: Unit, recipe: Recipe, source: Source) -> Run | None:
        """The run of the same recipe over the same pages that has not ended, if any."""
        for run in self._tables.runs.select(unit, recipe_digest=recipe.digest()):
            if run.state not in saga.ENDED and self._tables.source(unit, run.name) == source:
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
        return crud.get(self._host.units, self._tables.runs, request)

    def ListRuns(self, request: ListRequest, call: Call) -> ListRunsResponse:
        return crud.list_page(self._host.units, self._tables.runs, request, ListRunsResponse, "runs")

    def CancelRun(self, request: CancelRequest, call: Call) -> Run:
        check_name("runs", request.name)

        def cancel(unit: Unit) -> Run:
            run = self._tables.runs.lock(unit, request.name)
            if request.validate_only or run.state in saga.ENDED:
                return run
            self._tables.ask_cancel(unit, run.name)
            unit.on_commit(lambda: self._wake(run.name))
            return self._tables.runs.put(unit, saga.ended(run, STATE_CANCELLED, "cancelled on request", unit.now))

        return self._host.units.run(cancel)

    def CheckRecipe(self, request: CheckRecipeRequest, call: Call) -> CheckRecipeResponse:
        recipe, source = self._read(request, call)
        response = CheckRecipeResponse(recipe=recipe.canonical(), recipe_digest=recipe.digest())
        results: dict[StageName, Result] = {}
        for name in (stages := stages_of(recipe)):
            stage = Stage(name=name.value, state=STATE_PENDING)
            if all(each in results for each in USES[name] if each in stages):
                found = self._driver.find(name, recipe, source, given(name, results))
                results |= {name: found.result} if found.result else {}
                stage.reuse_key, stage.reused = found.reuse.key, found.result is not None
                stage.reason = "reused" if found.result else found.why or "runs: nothing like it was made before"
                if found.result:
                    stage.resource, stage.manifest_key = found.result.resource, found.result.manifest_key
                    stage.content_digest = found.result.content_digest
            else:
                stage.reason = "runs, or is reused if the stages before it give what they gave before"
            response.stages.append(stage)
        return response

    def _read(self, request: CreateRunRequest | CheckRecipeRequest, call: Call) -> tuple[Recipe, Source]:
        """The recipe over the content of its folder, and where that lies. Raises InvalidField."""
        if request.again:
            return self._again(request)
        required(request, "recipe")
        recipe = self._owners.resolved(recipes.read(request.recipe, request.overrides))
        if recipe.input.crawl is not None:
            source = Source(json.dumps(recipe.input.crawl.connect, sort_keys=True), "", "")
            return self._beside(recipe, source, request, call)
        source = self._folder("input.path", recipe.input.path, recipe.input.limit, recipe, request, call)
        return self._beside(recipe, source, request, call)

    def _beside(
        self, recipe: Recipe, source: Source, request: CreateRunRequest | CheckRecipeRequest, call: Call
    ) -> tuple[Recipe, Source]:
        """The same with the evaluation texts of the recipe, if any; and what only owners can judge."""
        clean = recipe.dedup.decontaminate
        if clean is not None:
            found = self._folder("dedup.decontaminate.path", clean.path, 0, recipe, request, call)
            source = replace(source, evaluation=found)
        self._owners.check(recipe, source)
        return recipe.over(source.input_digest, source.evaluation.input_digest if source.evaluation else ""), source

    def _folder(
        self,
        key: str,
        path: str,
        limit: int,
        recipe: Recipe,
        request: CreateRunRequest | CheckRecipeRequest,
        call: Call,
    ) -> Source:
        """The content of a folder that a key of the recipe names."""
        shown = path
        if not os.path.isabs(path):
            if not os.path.isabs(request.directory):
                raise InvalidField(
                    "directory",
                    seen=request.directory or "nothing",
                    expected=f"an absolute path that {key} ({path!r}) starts from",
                )
            path = os.path.normpath(os.path.join(request.directory, path))
        spec = IngestSpec(input_path=path, max_file_bytes=recipe.input.max_file_bytes, limit=limit)
        return self._owners.source(
            spec, key, shown, seconds=max(call.deadline_seconds - ANSWER_SECONDS, ANSWER_SECONDS)
        )

    def _again(self, request: CreateRunRequest | CheckRecipeRequest) -> tuple[Recipe, Source]:
        """What an earlier run was asked for, over the pages that it read. Raises InvalidField, NotFound."""
        name = check_name("runs", request.again, field="again")
        if request.recipe or request.overrides:
            raise InvalidField("again", seen=f"{name} and a recipe", expected="a run, or a recipe, and one alone")

        def read(unit: Unit) -> tuple[Recipe, Source]:
            return recipes.read(self._tables.runs.get(unit, name).spec.recipe), self._tables.source(unit, name)

        recipe, source = self._host.units.run(read)
        return recipe, self._owners.as_today(recipe, source)
