"""Reruns: which runs are to be carried out again without a page, in which order, and what that does.

Promises: no command is run; what a run takes of others (`dedup.against`, `tokenizer.of`, `mixture`) is followed however
far it goes, and a run comes after those that it takes of.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from tutti.client import READING_SECONDS, Client
from tutti.client.plain import Plain
from tutti.client.resources import list_all
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED
from tutti.contracts.lineage.v1 import Reach, ReachedRun
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CheckRecipeResponse, Run, Stage
from tutti.report.results import dataset_of
from tutti.report.stages import steps as training_steps

REUSED, AGAIN, PERHAPS = "reused", "again", "again, unless the dataset comes out the same"
SURER = (REUSED, PERHAPS, AGAIN)
EVERY = "every run above"
READS = ("crawl", "ingest", "evaluation")
ENDED = (STATE_DONE, STATE_FAILED, STATE_CANCELLED)

Words = Mapping[str, str]
"""By stage of a run what becomes of it, as one of SURER."""


def plans(client: Client, reach: Reach, *, dry_run: bool) -> Iterator[Plain]:
    """For every recipe that used the page, the command that runs it again, and its effect."""
    by_name = {each.run: each for each in reach.runs}
    every = sorted(list_all(client, "runs"), key=lambda run: run.started_at.ToNanoseconds())
    datasets = list_all(client, "datasets", fields=("name", "tokenizer"))
    changed = changes(every, reach, {each.name: each.tokenizer for each in datasets})
    later = list[Plain]()
    for runs in families(every):
        newest = runs[-1]
        if takes(words := taken(newest, changed)):
            later.append(taker_plan(newest, words, by_name.get(newest.name)))
            continue
        if not (users := [run for run in runs if run.name in by_name]):
            continue
        used = users[-1]
        found = by_name[used.name]
        if used is newest and not (found.kept or found.duplicates or found.rejected):
            yield {"run": used.name, "title": used.spec.title, "command": "", "after": "", "steps": 0, "stages": []}
            continue
        checked = client.pipeline.CheckRecipe(CheckRecipeRequest(again=used.name), timeout=READING_SECONDS)
        waits = newest.name if newest.state not in ENDED else ""
        yield {
            "run": used.name,
            "title": used.spec.title,
            "after": waits,
            **plan(used.name, found, checked, dry_run=dry_run),
        }
    yield from later


def families(every: Sequence[Run]) -> list[list[Run]]:
    """Runs that carry out the same recipe, or it again with what it takes of others made anew.

    `every` run in order of time; so are these, by the first of each: after those that it takes of.
    """
    found: dict[str, list[Run]] = {}
    for run in every:
        found.setdefault(run.spec.origin or run.spec.recipe_digest, []).append(run)
    return list(found.values())


def changes(every: Sequence[Run], reach: Reach, tokenizers: Mapping[str, str]) -> dict[str, str]:
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
    every: Sequence[Run], reach: Reach, tokenizers: Mapping[str, str], same: frozenset[str]
) -> tuple[dict[str, str], set[str]]:
    """The same, where these names are known to come out the same; and which others a run without the page made."""
    by_name, holders = {each.run: each for each in reach.runs}, {each.dataset for each in reach.datasets}
    learnt = {each.tokenizer for each in reach.datasets} - {""} - same
    found = {each.dataset: AGAIN if each.train else REUSED for each in reach.datasets} | dict.fromkeys(learnt, AGAIN)
    as_before = set[str]()
    for run in every:
        words, reached = taken(run, found), by_name.get(run.name)
        dataset = dataset_of(run)
        bound = json.loads(run.spec.recipe)["tokenizer"].get("of", "")
        own = {dataset} if bound else {dataset, tokenizers.get(dataset, "")}
        word = words.get("tokenization", REUSED)
        if word == REUSED and reached is not None and reached.duplicates:
            word = PERHAPS
        for name in own - {""} - same:
            if word != REUSED:
                found[name] = surest(word, found.get(name, word))
            elif name in found and dataset not in holders:
                del found[name]
                as_before.add(name)
    return found, as_before


def taken(run: Run, changed: Mapping[str, str]) -> Words:
    """The effect on the stages of a run that depend on other runs, once those were run again.

    What a dataset is compared with may leave it as it was.
    """
    recipe = json.loads(run.spec.recipe)
    enters = {
        "dedup": [PERHAPS for name in recipe.get("dedup", {}).get("against", ()) if name in changed],
        "tokenization": [changed.get(recipe["tokenizer"].get("of", ""), REUSED)],
        "train": [changed.get(name, REUSED) for name in (recipe.get("mixture") or {"datasets": ()})["datasets"]],
    }
    found, word = dict[str, str](), REUSED
    for stage in run.stages:
        word = surest(word, *enters.get(stage.name, ()))
        found[stage.name] = word
    return found


def takes(words: Words) -> bool:
    return any(word != REUSED for word in words.values())


def surest(*words: str) -> str:
    return max(words, key=SURER.index)


def taker_plan(run: Run, words: Words, read: ReachedRun | None) -> Plain:
    """The effect of running again a run that depends on other runs, once those were run again; `read`: it read the page
    too.
    """
    own = decided(run.stages, read) if read else {}
    stages = [{"name": name, "what": surest(word, own.get(name, REUSED))} for name, word in words.items()]
    return {
        "run": run.name,
        "title": run.spec.title,
        "after": EVERY,
        "command": f"tutti runs again {run.name}",
        "steps": sum(training_steps(json.loads(run.spec.recipe)).values()),
        "stages": stages,
    }


def decided(stages: Sequence[Stage], found: ReachedRun) -> Words:
    """The effect on the stages after reading, by the outcome of the page in them."""
    later = AGAIN if found.kept or found.duplicates else REUSED
    trained = AGAIN if found.kept else PERHAPS if found.duplicates else REUSED
    chosen = AGAIN if found.kept or found.duplicates or found.rejected else REUSED
    words = {**dict.fromkeys(READS, REUSED), "filter": chosen, "dedup": later, "tokenization": later}
    return {stage.name: words.get(stage.name, trained) for stage in stages}


def plan(run: str, found: ReachedRun, checked: CheckRecipeResponse, *, dry_run: bool) -> Plain:
    """The effect of running a run again: a word for each stage, the maximum number of steps to train, and the command.

    There is none where everything would be reused.
    """
    expected = {**decided(checked.stages, found), **dict.fromkeys(READS, AGAIN)}

    def word(stage: Stage) -> str:
        # Before anything is recorded the filter is still the one that was made with the page.
        sure = stage.name in READS or not dry_run
        return REUSED if stage.reused and sure else expected[stage.name]

    stages = [{"name": stage.name, "what": word(stage)} for stage in checked.stages]
    trained = training_steps(json.loads(checked.recipe))
    steps = sum(trained.get(stage["name"], 0) for stage in stages if stage["what"] != REUSED)
    again = any(stage["what"] != REUSED for stage in stages)
    return {"command": f"tutti runs again {run}" if again else "", "steps": steps, "stages": stages}
