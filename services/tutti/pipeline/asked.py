"""What a caller asks for: a recipe over the content of its folder, or that of an earlier run.

Promises: nothing is recorded; what is wrong is named by the recipe's key, before a folder is read whole if it can be
seen before.
"""

import contextlib
import json
import os.path
from collections.abc import Iterator
from dataclasses import replace

from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.required import required
from tutti.chassis.resources import check_name
from tutti.chassis.service import Host
from tutti.chassis.unit import Unit
from tutti.contracts.ingest.v1 import IngestSpec
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest
from tutti.pipeline import reading, saga
from tutti.pipeline.earlier import Earlier, origin
from tutti.pipeline.limits import Limits
from tutti.pipeline.owners import Owners
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import Source, StageName
from tutti.pipeline.tables import Tables

ANSWER_SECONDS = 1.0  # of a caller's time, for what follows the reading
Request = CreateRunRequest | CheckRecipeRequest


class Asked:
    def __init__(self, host: Host, tables: Tables, owners: Owners, earlier: Earlier) -> None:
        self._host, self._tables, self._owners, self._earlier = host, tables, owners, earlier
        self._limits = Limits(host)

    def read(self, request: Request, call: Call) -> tuple[Recipe, Source]:
        """The recipe over the content of its folder, and where that lies. Raises InvalidField."""
        if request.again:
            return self._again(request)
        required(request, "recipe")
        recipe = reading.read(request.recipe, request.overrides)
        recipe = self._earlier.resolved(self._owners.resolved(recipe))
        source = self._input(recipe, request, call)
        clean = recipe.dedup.decontaminate
        if clean is not None:
            found = self._folder("dedup.decontaminate.path", clean.path, 0, recipe, request, call)
            source = replace(source, evaluation=found)
        for judge in self._owners.judgements(recipe, source):
            judge()
        self._limits.foreseen(recipe)
        return recipe.over(source.input_digest, source.evaluation.input_digest if source.evaluation else ""), source

    def origin(self, request: Request) -> str:
        """The first recipe of the runs that this one repeats; "" for one that repeats none. Raises NotFound."""
        if not request.again:
            return ""
        return origin(self._host.units.run(lambda unit: self._tables.runs.get(unit, request.again)))

    def problems(self, request: CheckRecipeRequest, call: Call) -> list[InvalidField]:
        """Everything that is wrong with a recipe; of its folders one file is read."""
        required(request, "recipe")
        recipe, found = reading.examine(request.recipe, request.overrides)
        recipe = recipe or reading.remains(request.recipe, request.overrides)
        if recipe is None:
            return found
        source = Source("{}", "", "")
        for resolve in (self._owners.resolved, self._earlier.resolved):
            with _kept(found):
                recipe = resolve(recipe)
        with _kept(found):
            source = self._input(recipe, request, call, most=1)
        clean = recipe.dedup.decontaminate
        if clean is not None:
            with _kept(found):
                self._folder("dedup.decontaminate.path", clean.path, 1, recipe, request, call)
        for judge in self._owners.judgements(recipe, source):
            with _kept(found):
                judge()
        with _kept(found):
            self._limits.foreseen(recipe)
        return found

    def _input(self, recipe: Recipe, request: Request, call: Call, most: int = 0) -> Source:
        """Where the pages of a recipe are."""
        if recipe.input.crawl is not None:
            return Source(json.dumps(recipe.input.crawl.connect, sort_keys=True), "", "")
        return self._folder("input.path", recipe.input.path, most or recipe.input.limit, recipe, request, call)

    def _folder(
        self,
        key: str,
        path: str,
        limit: int,
        recipe: Recipe,
        request: Request,
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

    def _again(self, request: Request) -> tuple[Recipe, Source]:
        """What an earlier run was asked for, over the pages that it read. Raises InvalidField, NotFound."""
        name = check_name("runs", request.again, field="again")
        if request.recipe or request.overrides:
            raise InvalidField("again", seen=f"{name} and a recipe", expected="a run, or a recipe, and one alone")

        def read(unit: Unit) -> tuple[Recipe, Source]:
            run = self._tables.runs.get(unit, name)
            source = self._tables.source(unit, name)
            evaluation = source.evaluation and saga.sized(source.evaluation, run, StageName.EVALUATION)
            source = replace(saga.sized(source, run, StageName.INGEST), evaluation=evaluation)
            return reading.read(run.spec.recipe), source

        recipe, source = self._host.units.run(read)
        return self._earlier.as_today(recipe), self._owners.as_today(recipe, source)


@contextlib.contextmanager
def _kept(problems: list[InvalidField]) -> Iterator[None]:
    """What is refused inside is added to the problems, if nothing is known of its key yet."""
    try:
        yield
    except InvalidField as problem:
        if problem.field not in [each.field for each in problems]:
            problems.append(problem)
