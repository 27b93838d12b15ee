"""The request of a caller: a recipe over the content of its folder, or that of an earlier run.

Promises: nothing is recorded; what is wrong is named by the recipe's key, before a folder is read whole if it can be
seen before.
"""

import contextlib
import json
import os.path
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from tutti.chassis.config.roots import Roots
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.contracts.ingest.v1 import IngestSpec, InputSample
from tutti.contracts.pipeline.v1 import (
    CheckRecipeRequest,
    CreateRunRequest,
    InputReport,
    ListRecipeFilesRequest,
    ListRecipeFilesResponse,
    RecipeFile,
)
from tutti.pipeline.definitions.definition import Folder
from tutti.pipeline.plans import graph, reading, textfiles
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.plans.owners import Owners
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import MOST_REJECTED
from tutti.pipeline.recipes.values import Source, Sources
from tutti.pipeline.runs import transitions
from tutti.pipeline.runs.references import Earlier, origin
from tutti.pipeline.runs.tables import Tables
from tutti.pipeline.runs.tenancy import require_recipe
from tutti.pipeline.settings import PipelineSettings

ANSWER_SECONDS = 1.0  # of a caller's time, for what follows the reading
SAMPLED, FEW = 500, 50
"""Records of a folder that are read as a sample before anything is recorded; of one of which only one file is named."""
Request = CreateRunRequest | CheckRecipeRequest


class Asked:
    def __init__(self, host: Host, tables: Tables, owners: Owners, earlier: Earlier) -> None:
        self._host, self._tables, self._owners, self._earlier = host, tables, owners, earlier
        self._roots = Roots(host.settings(PipelineSettings).roots, "pipeline.roots")

    def read(self, request: Request, call: Call) -> tuple[Recipe, Sources]:
        """The recipe over the content of its folders, and where these are. Raises InvalidField."""
        if request.again:
            return self._again(request, call)
        required(request, "recipe")
        recipe = self._embedded(reading.read(request.recipe, request.overrides), request, call)
        recipe = self._earlier.resolved(self._owners.resolved(recipe))
        sources = {place: read() for place, read in self._inputs(recipe, request, call)}
        for judge in self._owners.judgements(recipe, sources):
            judge()
        self._owners.foreseen(recipe)
        return recipe.over({place: source.input_digest for place, source in sources.items()}), sources

    def origin(self, request: Request) -> str:
        """The first recipe of the runs that this one repeats; "" for one that repeats none. Raises NotFound."""
        if not request.again:
            return ""
        return origin(self._host.units.run(lambda unit: self._tables.runs.get(unit, request.again)))

    def problems(
        self, request: CheckRecipeRequest, call: Call, fit: Callable[[Recipe], Iterable[InvalidField]]
    ) -> tuple[list[InvalidField], list[InputReport], Recipe | None]:
        """Everything that is wrong with a recipe, and samples of its folders, whose content is not read whole.

        Also the recipe itself, if nothing is wrong with it.

        `fit` judges whether the machines can hold a recipe that is not wrong in itself.
        """
        required(request, "recipe")
        recipe, found = reading.examine(request.recipe, request.overrides)
        whole = recipe is not None
        recipe = recipe or reading.remains(request.recipe, request.overrides)
        if recipe is None:
            return found, [], None
        for resolve in (
            partial(self._embedded, request=request, call=call),
            self._owners.resolved,
            self._earlier.resolved,
        ):
            with _kept(found):
                recipe = resolve(recipe)
        sources: dict[str, Source] = {}
        for place, read in self._inputs(recipe, request, call, most=1):
            with _kept(found):
                sources[place] = read()
        for judge in self._owners.judgements(recipe, sources):
            with _kept(found):
                judge()
        found += dropped(recipe, sources)
        with _kept(found):
            self._owners.foreseen(recipe)
        if whole:
            found += fit(recipe)
        return found, reports(recipe, sources), None if found else recipe

    def files(self, request: ListRecipeFilesRequest) -> ListRecipeFilesResponse:
        """The files of text that a recipe names."""
        required(request, "recipe")
        recipe, _ = reading.examine(request.recipe, request.overrides)
        recipe = recipe or reading.remains(request.recipe, request.overrides)
        named = textfiles.named(recipe) if recipe else {}
        return ListRecipeFilesResponse(files=[RecipeFile(key=key, path=path) for key, path in sorted(named.items())])

    def _embedded(self, recipe: Recipe, request: Request, call: Call) -> Recipe:
        given = textfiles.Given(dict(request.files), request.directory, self._roots, call.principal)
        return textfiles.embedded(recipe, given)

    def _inputs(
        self, recipe: Recipe, request: Request, call: Call, most: int = 0
    ) -> Iterator[tuple[str, Callable[[], Source]]]:
        """The readers of each folder of a recipe, by place, with a limit on the number of files. For a crawl: the
        addresses of hosts.
        """
        for node in graph.nodes(recipe):
            if node.hosts is not None:
                yield node.place, partial(Source, json.dumps(dict(node.hosts), sort_keys=True), "", "")
            elif node.folder is not None:
                yield node.place, partial(self._folder, node, node.folder, most, request, call)

    def _folder(self, node: Node, folder: Folder, most: int, request: Request, call: Call) -> Source:
        """The content of a folder that a key of the recipe names."""
        key, path = folder.key, folder.path
        shown = path
        if not os.path.isabs(path):
            if not os.path.isabs(request.directory):
                raise InvalidField(
                    "directory",
                    seen=request.directory or "nothing",
                    expected=f"an absolute path that {key} ({path!r}) starts from",
                )
            path = os.path.normpath(os.path.join(request.directory, path))
        seconds = max(call.deadline_seconds - ANSWER_SECONDS, ANSWER_SECONDS)
        if folder.model:
            return self._owners.model(path, key, shown, seconds=seconds)
        asks = isinstance(request, CheckRecipeRequest) and node.stage.brings_pages
        sample = (FEW if most else SAMPLED) if asks else 0
        spec = IngestSpec(
            input_path=path,
            max_file_bytes=folder.max_file_bytes,
            limit=folder.limit,
            text_field=folder.text_field,
        )
        found = self._owners.source(spec, key, shown, seconds=seconds, files=most, sample=sample)
        return found if node.stage.surveyed else replace(found, logic_version="")

    def _again(self, request: Request, call: Call) -> tuple[Recipe, Sources]:
        """The recipe of an earlier run, over the pages that it read. Raises InvalidField, NotFound."""
        name = check_name("runs", request.again, field="again")
        if request.recipe or request.overrides:
            raise InvalidField("again", seen=f"{name} and a recipe", expected="a run, or a recipe, and one alone")

        def read(unit: Unit) -> tuple[Recipe, Sources]:
            run = require_recipe(self._tables.runs.get_for(unit, name, call.principal))
            recipe, sources = reading.read(run.spec.recipe), self._tables.sources_of(unit, name)
            for node in graph.nodes(recipe):
                if node.folder is not None:
                    sources[node.place] = transitions.sized(sources[node.place], run, node.name)
            return recipe, sources

        recipe, sources = self._host.units.run(read)
        return self._earlier.as_today(recipe), self._owners.as_today(recipe, sources)


def dropped(recipe: Recipe, sources: Sources) -> list[InvalidField]:
    """The files of sampled folders of which no record has a text: a run does not go on with them."""
    return [
        InvalidField(
            node.view.key("text_field"),
            seen=f"{node.folder.text_field!r}, which none of the first {each.records:,} records of {each.path} has",
            expected=f"a field with the texts: {each.detail}",
        )
        for node in graph.nodes(recipe)
        if node.folder is not None and node.place in sources and node.folder.most_rejected <= MOST_REJECTED
        for each in (sources[node.place].sample or InputSample()).dropped
    ]


def reports(recipe: Recipe, sources: Sources) -> list[InputReport]:
    """The folders of a recipe that were sampled."""
    return [
        InputReport(key=node.folder.key, path=sources[node.place].path, sample=sources[node.place].sample)
        for node in graph.nodes(recipe)
        if node.folder is not None and node.place in sources and sources[node.place].sample is not None
    ]


@contextlib.contextmanager
def _kept(problems: list[InvalidField]) -> Iterator[None]:
    """Add errors raised inside to the problems, unless there is one for the same key already."""
    try:
        yield
    except InvalidField as problem:
        if problem.field not in [each.field for each in problems]:
            problems.append(problem)
