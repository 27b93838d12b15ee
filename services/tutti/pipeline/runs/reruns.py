"""Reruns: which runs to run again without some documents, in which order, and the effect on their stages. Pure.

Guarantees: what a run takes from others (`dedup.against`, `tokenizer.of`, `mixture`) is followed however far it goes,
and a run comes after those that it takes from.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from tutti.contracts.lineage.v1 import ReachedRun
from tutti.contracts.pipeline.v1 import (
    RERUN_EFFECT_AGAIN,
    RERUN_EFFECT_PERHAPS,
    RERUN_EFFECT_REUSED,
    CheckRecipeResponse,
    PlanRerunsRequest,
    Rerun,
    RerunEffect,
    RerunStage,
    Run,
    Stage,
)
from tutti.pipeline.runs.transitions import ENDED
from tutti.report.results import dataset_of
from tutti.report.stages import steps as training_steps

REUSED, PERHAPS, AGAIN = RERUN_EFFECT_REUSED, RERUN_EFFECT_PERHAPS, RERUN_EFFECT_AGAIN
READS = ("crawl", "ingest", "evaluation")

Effects = Mapping[str, RerunEffect.ValueType]
"""By stage of a run, the effect on it; the larger of two is the surer."""


def plans(
    every: Sequence[Run],
    reach: PlanRerunsRequest,
    tokenizers: Mapping[str, str],
    check: Callable[[str], CheckRecipeResponse],
) -> Iterator[Rerun]:
    """Yield a plan for each recipe that used the documents of `reach`, then for those that depend on them.

    `every` run in order of time; `tokenizers` by dataset; `check` returns which stages of a run would be reused.
    """
    by_name = {each.run: each for each in reach.runs}
    changed = changes(every, reach, tokenizers)
    later = list[Rerun]()
    for runs in families(every):
        newest = runs[-1]
        if takes(effects := taken(newest, changed)):
            later.append(taker_plan(newest, effects, by_name.get(newest.name)))
            continue
        if not (users := [run for run in runs if run.name in by_name]):
            continue
        used = users[-1]
        found = by_name[used.name]
        if used is newest and not (found.kept or found.duplicates or found.rejected):
            yield Rerun(run=used.name, title=used.spec.title)
            continue
        made = plan(found, check(used.name), recorded=reach.recorded)
        waits = newest.name if newest.state not in ENDED else ""
        made.MergeFrom(Rerun(run=used.name, title=used.spec.title, after=waits))
        yield made
    yield from later


def families(every: Sequence[Run]) -> list[list[Run]]:
    """Return the runs of each recipe, with those that repeat it over newer results of other runs.

    `every` run in order of time; so are the families, by their first runs: each after those that it depends on.
    """
    found: dict[str, list[Run]] = {}
    for run in every:
        found.setdefault(run.spec.origin or run.spec.recipe_digest, []).append(run)
    return list(found.values())


def changes(
    every: Sequence[Run], reach: PlanRerunsRequest, tokenizers: Mapping[str, str]
) -> dict[str, RerunEffect.ValueType]:
    """By dataset and tokenizer that comes out otherwise without the page, or may, what becomes of a training on it.

    A page may be held out, and so be in no training. `every` run in order of time; `tokenizers` by dataset.
    """
    same = frozenset[str]()
    while True:
        found, as_before = _changes(every, reach, tokenizers, same)
        if as_before <= same:
            return found
        same |= as_before  # so does what was made with it


def _changes(
    every: Sequence[Run], reach: PlanRerunsRequest, tokenizers: Mapping[str, str], same: frozenset[str]
) -> tuple[dict[str, RerunEffect.ValueType], set[str]]:
    """The same, where these names are known to come out the same; and which others a run without the page made."""
    by_name, holders = {each.run: each for each in reach.runs}, {each.dataset for each in reach.datasets}
    learnt = {each.tokenizer for each in reach.datasets} - {""} - same
    found = {each.dataset: AGAIN if each.train else REUSED for each in reach.datasets} | dict.fromkeys(learnt, AGAIN)
    as_before = set[str]()
    for run in every:
        effects, reached = taken(run, found), by_name.get(run.name)
        dataset = dataset_of(run)
        bound = json.loads(run.spec.recipe)["tokenizer"].get("of", "")
        own = {dataset} if bound else {dataset, tokenizers.get(dataset, "")}
        effect = effects.get("tokenization", REUSED)
        if effect == REUSED and reached is not None and reached.duplicates:
            effect = PERHAPS
        for name in own - {""} - same:
            if effect != REUSED:
                found[name] = surest(effect, found.get(name, effect))
            elif name in found and dataset not in holders:
                del found[name]
                as_before.add(name)
    return found, as_before


def taken(run: Run, changed: Effects) -> Effects:
    """The effect on the stages of a run that depend on other runs, once those were run again.

    What a dataset is compared with may leave it as it was.
    """
    recipe = json.loads(run.spec.recipe)
    enters = {
        "dedup": [PERHAPS for name in recipe.get("dedup", {}).get("against", ()) if name in changed],
        "tokenization": [changed.get(recipe["tokenizer"].get("of", ""), REUSED)],
        "train": [changed.get(name, REUSED) for name in (recipe.get("mixture") or {"datasets": ()})["datasets"]],
    }
    found, effect = dict[str, RerunEffect.ValueType](), REUSED
    for stage in run.stages:
        effect = surest(effect, *enters.get(stage.name, ()))
        found[stage.name] = effect
    return found


def takes(effects: Effects) -> bool:
    """True if running other runs again changes the inputs of a run."""
    return any(effect != REUSED for effect in effects.values())


def surest(*effects: RerunEffect.ValueType) -> RerunEffect.ValueType:
    return max(effects)


def taker_plan(run: Run, effects: Effects, read: ReachedRun | None) -> Rerun:
    """The effect of running again a run that depends on other runs, once those were run again; `read`: it read the
    documents too.
    """
    own = decided(run.stages, read) if read else {}
    return Rerun(
        run=run.name,
        title=run.spec.title,
        needed=True,
        after_all=True,
        steps=sum(training_steps(json.loads(run.spec.recipe)).values()),
        stages=[
            RerunStage(name=name, effect=surest(effect, own.get(name, REUSED))) for name, effect in effects.items()
        ],
    )


def decided(stages: Sequence[Stage], found: ReachedRun) -> Effects:
    """The effect on the stages after reading, by the outcome of the page in them."""
    later = AGAIN if found.kept or found.duplicates else REUSED
    trained = AGAIN if found.kept else PERHAPS if found.duplicates else REUSED
    chosen = AGAIN if found.kept or found.duplicates or found.rejected else REUSED
    words = {**dict.fromkeys(READS, REUSED), "filter": chosen, "dedup": later, "tokenization": later}
    return {stage.name: words.get(stage.name, trained) for stage in stages}


def plan(found: ReachedRun, checked: CheckRecipeResponse, *, recorded: bool) -> Rerun:
    """The effect of running again a run with these outcomes of the documents, and the maximum number of steps to train.

    It is not needed where everything would be reused.
    """
    expected = {**decided(checked.stages, found), **dict.fromkeys(READS, AGAIN)}

    def effect(stage: Stage) -> RerunEffect.ValueType:
        # Before the retraction is recorded, the filter is still the one that was made with the documents.
        sure = stage.name in READS or recorded
        return REUSED if stage.reused and sure else expected[stage.name]

    stages = [RerunStage(name=stage.name, effect=effect(stage)) for stage in checked.stages]
    trained = training_steps(json.loads(checked.recipe))
    steps = sum(trained.get(stage.name, 0) for stage in stages if stage.effect != REUSED)
    return Rerun(needed=any(stage.effect != REUSED for stage in stages), steps=steps, stages=stages)
