"""Earlier datasets, tokenizers and crawls that a recipe names, by themselves or by the run that made them.

Promises: nothing is kept here; what a recipe is recorded with is named by content, so that it means the same for ever.
"""

from collections.abc import Mapping

from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import STATE_DONE, GetRequest, ListRequest
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.tokenization.v1 import Dataset, Tokenizer
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.pipeline.recipes.imports import TOKENIZATION, TOKENIZER
from tutti.pipeline.recipes.instance import Instance
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import MixturePart, TokenizationSection
from tutti.pipeline.runs.tables import Tables

PAGE = 500
DATASETS = "mixture.datasets"
EXPECTED = "a run that has made its dataset (`tutti runs ls`), or datasets/… (`tutti datasets ls`)"


class Earlier:
    def __init__(self, host: Host, tables: Tables) -> None:
        self._host, self._tables = host, tables
        self._tokenization = TokenizationServiceStub(host.channel("tokenization"))

    def resolved(self, recipe: Recipe) -> Recipe:
        """The same with tokenizer, datasets and crawl by their own names. Raises InvalidField naming the key."""
        recipe = recipe.changed("since", lambda key, since: self._crawl(since, key)).each(self._with_tokenizer)
        return self._with_datasets(recipe, recipe.mixture) if recipe.mixture else recipe

    def as_today(self, recipe: Recipe) -> Recipe:
        """The recipe of an earlier run, with what it takes of others as these have made it since.

        What a run made is followed to the newest of the runs that carry out the same recipe. Raises InvalidField where
        some of a mixture was made again and some not.
        """
        every = [*recipe.top.values(), *recipe.stages.values()]
        taken = any(getattr(each.section, key, None) for each in every for key in ("against", "of"))
        if not taken and recipe.mixture is None:
            return recipe
        newest = self._host.units.run(self._newest)
        found = recipe.changed("against", lambda key, names: [newest.get(name, name) for name in names]).each(
            lambda stage: self._tokenizer_today(stage, newest)
        )
        if recipe.mixture is None:
            return found
        datasets = {newest.get(name, name): amount for name, amount in recipe.mixture.datasets.items()}
        if len(datasets) < len(recipe.mixture.datasets):
            raise InvalidField(
                DATASETS, seen="two that are now the same", expected="a new recipe with each dataset once"
            )
        return self._with_datasets(found, recipe.mixture.model_copy(update={"datasets": datasets}))

    def _newest(self, unit: Unit) -> dict[str, str]:
        """By dataset the one that the newest run made of those that carry out what some maker of it did."""
        made = [
            (origin(run), name)
            for run in sorted(self._tables.runs.select(unit), key=lambda run: run.started_at.ToNanoseconds())
            if (name := dataset_of(run))
        ]
        makers: dict[str, set[str]] = {}
        for recipe, name in made:
            makers.setdefault(name, set()).add(recipe)
        return {name: [found for of, found in made if of in recipes][-1] for name, recipes in makers.items()}

    def _tokenizer_today(self, stage: Instance, newest: Mapping[str, str]) -> Instance:
        section = stage.section
        trained = self._trained(section.of) if isinstance(section, TokenizationSection) and section.of else ""
        if newest.get(trained, trained) == trained:
            return stage
        found = self._tokenizer(newest[trained], stage.keys.of("of"))
        return stage.changed({"of": found.name, "vocabulary": found.vocabulary})

    def _trained(self, tokenizer: str) -> str:
        """The dataset for which a tokenizer was trained, of several any; "" where none is known."""
        token = ""
        while True:
            page = self._tokenization.ListTokenizations(ListRequest(page_size=PAGE, page_token=token))
            for each in page.tokenizations:
                if each.state == STATE_DONE and each.tokenizer == tokenizer and not each.spec.tokenizer:
                    return str(each.dataset)
            token = page.next_page_token
            if not token:
                return ""

    def _with_tokenizer(self, stage: Instance) -> Instance:
        section, keys = stage.section, stage.keys
        if not isinstance(section, TokenizationSection) or not section.of or TOKENIZER in stage.inputs:
            return stage
        found = self._tokenizer(section.of, keys.of("of"))
        for key, seen, expected in (
            ("vocabulary", section.vocabulary, found.vocabulary),
            ("pattern", section.pattern, found.pattern),
        ):
            if key in section.model_fields_set and seen not in ("", expected):
                of = keys.of("of")
                raise keys.refused(key, seen=seen, expected=f"nothing beside {of}: that one has {expected!r}")
        return stage.changed({"of": found.name, "vocabulary": found.vocabulary, "pattern": ""})

    def _with_datasets(self, recipe: Recipe, mixture: MixturePart) -> Recipe:
        """Refuses what could not be read together, before anything starts.

        The tokenizer of an import that is still to come is compared when the run has its own dataset.
        """
        found: dict[str, float] = {}
        of = "" if TOKENIZER in recipe.top[TOKENIZATION].inputs else recipe.tokens.of
        for name, amount in mixture.datasets.items():
            dataset = self._dataset(name, key=DATASETS)
            for what, seen, expected, todo in (
                ("the tokenizer", dataset.tokenizer, of or dataset.tokenizer, "tokenizer.of"),
                ("the context", dataset.context, recipe.tokens.context, "data.context"),
            ):
                if seen != expected:
                    raise InvalidField(
                        DATASETS,
                        seen=f"{name} with {what} {seen}",
                        expected=f"datasets with {what} {expected}, as {todo} says; make it again with that one",
                    )
            if dataset.name in found:
                raise InvalidField(DATASETS, seen=f"{dataset.name} twice, as {name} too", expected="each dataset once")
            found[dataset.name] = amount
        return recipe.model_copy(update={"mixture": mixture.model_copy(update={"datasets": found})})

    def _dataset(self, name: str, *, key: str) -> Dataset:
        """A dataset by its name or that of a run; `key` of the recipe names it. Raises InvalidField."""
        wanted = name if name.startswith("datasets/") else self._of_run(name, key)
        try:
            return self._tokenization.GetDataset(GetRequest(name=wanted))
        except (NotFound, InvalidField) as problem:
            raise InvalidField(key, seen=name, expected=EXPECTED) from problem

    def _tokenizer(self, of: str, key: str) -> Tokenizer:
        name = of if of.startswith("tokenizers/") else self._dataset(of, key=key).tokenizer
        try:
            return self._tokenization.GetTokenizer(GetRequest(name=name))
        except (NotFound, InvalidField) as problem:
            raise InvalidField(key, seen=of, expected=EXPECTED) from problem

    def _crawl(self, run: str, key: str) -> str:
        """The crawl that is named, or that of the run that is. Raises InvalidField."""
        if run.startswith("crawls/"):
            return run
        found = stage_of(self._run(run), "crawl")
        if found is None:
            expected = "a run that has made its crawl (`tutti runs ls`), or crawls/… (`tutti crawls ls`)"
            raise InvalidField(key, seen=run, expected=expected)
        return found.resource

    def _of_run(self, name: str, key: str) -> str:
        if found := dataset_of(self._run(name)):
            return found
        raise InvalidField(key, seen=name, expected=EXPECTED)

    def _run(self, name: str) -> Run:
        """A run by its name; an empty one where it is not there."""
        wanted = name if name.startswith("runs/") else f"runs/{name}"
        return self._host.units.run(lambda unit: self._tables.runs.find(unit, wanted)) or Run()


def stage_of(run: Run, wanted: str) -> Stage | None:
    """A stage of a run, if it is done."""
    done = (stage for stage in run.stages if stage.name == wanted and stage.state == STATE_DONE)
    return next(done, None)


def dataset_of(run: Run) -> str:
    """The name of the dataset that a run has made, or reused; "" before it has."""
    found = stage_of(run, "tokenization")
    return f"datasets/{found.content_digest.removeprefix('blake3:')}" if found else ""


def origin(run: Run) -> str:
    """The digest of the recipe that the first of the runs had which carry out the same again."""
    return run.spec.origin or run.spec.recipe_digest
