"""The reference of recipes: their digests, and what each of their stages is called, asks for and is keyed by.

Promises: the inputs of a stage and the logic versions are synthetic and fixed, so an entry changes only with the code
that reads recipes or derives requests and reuse keys from them. A deliberate change of one is committed on its own.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from tutti.checkpoints.keys import manifest_key, manifest_of
from tutti.cli import classifierrecipe
from tutti.contracts.scheduler.v1 import JobSpec
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning import FinetuningStage
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.imports import INITIAL
from tutti.pipeline.recipes.sections import DedupSection
from tutti.pipeline.recipes.values import Inputs, Result, Source
from tutti.records.canonical import bytes_digest

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "recipes"
FILE = ROOT / "tests/contracts/reference.json"
RUN, LOGIC = "runs/0123456789ab-1", "logic-1"
LEAST = "input: {path: pages}\ntrain: {steps: 20}\n"
SITE = (
    "input: {crawl: {seeds: [http://a.example/], contact: me@a.example, connect: {a.example: 127.0.0.1:80}}}\n"
    "train: {steps: 20}\n"
)
NAMED = f"""{LEAST}sample: {{prompts: [The]}}
stages:
  anneal: {{kind: train, from: {{initial: train}}, steps: 10}}
  sample-anneal: {{kind: sample, from: anneal, prompts: [The]}}
  find: {{kind: index}}
"""
CORPORA = f"""{LEAST}stages:
  other: {{kind: ingest, path: others, mask: [email]}}
  chosen: {{kind: filter, from: other, rules: [c4]}}
  kept: {{kind: dedup, from: chosen, clean: c4, lines: {{}}}}
  tokens: {{kind: tokenization, from: kept, vocabulary: 300}}
  more: {{like: train, from: {{dataset: tokens, initial: train}}}}
"""
OTHER = "datasets/0d"
SAMPLES = 600
FOLDER = Source("/pages", bytes_digest(b"pages"), "ingest-1")
OTHERS = Source("/others", bytes_digest(b"others"), "ingest-1")
EVALUATION = Source("/evaluation", bytes_digest(b"evaluation"), "ingest-1")


@dataclass(frozen=True)
class Case:
    """A recipe over fixed inputs; `retracted`: pages of the ingest and of earlier datasets are retracted."""

    text: str
    overrides: Sequence[str] = ()
    retracted: bool = False


def cases() -> dict[str, Case]:
    """By name: every recipe of a run in recipes/, and what these do not exercise."""
    published = {
        f"recipes/{path.name}": Case(path.read_text())
        for path in sorted(RECIPES.glob("*.yaml"))
        if not is_classifier(path.read_text())
    }
    extra = ("index=true", 'sample.prompts=["a", "b"]', "dedup.decontaminate.path=/evaluation", "quality.clean=c4")
    everything = {f"{name} with everything": replace(case, overrides=extra) for name, case in published.items()}
    digest = "blake3:" + "c" * 64
    rules = ("quality.rules=gopher_quality, c4", "quality.languages=en, de", "quality.thresholds.c4_least_words=2.5")
    mixed = ("tokenizer.of=tokenizers/aa", f"mixture.datasets={{{OTHER}: 3}}", "mixture.own=2")
    variants = {
        "least": Case(LEAST),
        "crawl": Case(SITE),
        "crawl since": Case(SITE, ("input.crawl.since=crawls/a", "input.crawl.allow_private=true")),
        "crawl of an edition": Case(SITE, ("input.crawl.edition=2", "input.crawl.sitemaps=false")),
        "masked": Case(LEAST, ("quality.mask=phone, email", "input.text_field=body", "input.limit=3")),
        "classifiers": Case(LEAST, (f"quality.classifiers=spam@{digest}, harm@{digest}",)),
        "rules": Case(LEAST, rules),
        "clean": Case(LEAST, ("quality.clean=c4",)),
        "lines": Case(LEAST, ("dedup.lines.unit=paragraph", "dedup.lines.most=1", "dedup.lines.keep=1")),
        "evaluation": Case(
            LEAST,
            ("dedup.decontaminate.path=/evaluation", "dedup.decontaminate.words=8", "dedup.decontaminate.share=0.1"),
        ),
        "against": Case(LEAST, ("dedup.against=datasets/0b, datasets/0a", "dedup.near=0.9")),
        "against and evaluation": Case(
            LEAST, ("dedup.against=datasets/0a", "dedup.decontaminate.path=/evaluation", "index=true")
        ),
        "retraction": Case(LEAST, ("dedup.against=datasets/0b, datasets/0a",), retracted=True),
        "tokenizer of another": Case(LEAST, ("tokenizer.of=tokenizers/aa", "tokenizer.vocabulary=300")),
        "best fit": Case(LEAST, ("data.packing=best_fit", "data.context=64", "tokenizer.pattern=x")),
        "mixture": Case(LEAST, mixed),
        "mixture by epochs": Case(LEAST, (*mixed, "mixture.by=epochs")),
        "ray": Case(LEAST, ("engine=ray", "train.ranks=4", "train.shrink=true", "train.attempts=2")),
        "trained otherwise": Case(
            LEAST,
            (
                *("size=tiny", "train.batch=64", "train.schedule=wsd", "train.decay_fraction=0.3", "train.warmup=3"),
                *("train.tied_embeddings=true", "train.document_mask=false", "train.seed=7", "train.threads=2"),
                *("train.weight_decay=0.2", "train.clip_norm=2", "train.validate_every=4", "train.audit_every=5"),
            ),
        ),
        "sample": Case(
            LEAST, ("sample.prompts=[The, '']", "sample.temperature=0", "sample.top_p=0.5", "sample.seed=3")
        ),
    }
    stages = {"two trainings": Case(NAMED), "like another": Case(NAMED.replace("steps: 10", "like: train, steps: 10"))}
    stages["two corpora"] = Case(CORPORA)
    alone = {"from a checkpoint": Case("stages: {sample: {from: checkpoints/a/0/5, prompts: [The]}}")}
    return {**published, **everything, **variants, **stages, **alone}


def is_classifier(text: str) -> bool:
    return "\nkeeps:" in text


def today(node: Node, inputs: Inputs, case: Case) -> Inputs:
    """The inputs of a stage, with what its owners would know of earlier datasets and of retractions."""
    view = node.view
    if node.name == "filter" and case.retracted:
        return {"documents": (replace(inputs["documents"][0], retracted="ingest/retracted/r.json"),)}
    if node.name == "dedup" and view.section(DedupSection).against:
        retracted = "ingest/retracted/e.json" if case.retracted else ""
        against = tuple(earlier(name, retracted=retracted) for name in sorted(set(view.section(DedupSection).against)))
        return {**inputs, "against": against}
    if node.name == "train" and view.recipe.mixture is not None:
        others = tuple(earlier(name, weight=3) for name in sorted(view.recipe.mixture.datasets))
        return {"dataset": (replace(inputs["dataset"][0], weight=2),), "mixture": others}
    return inputs


def tuned(node: Node, inputs: Inputs, trainings: Mapping[str, Training]) -> Inputs:
    """The inputs of a stage that goes on with a checkpoint, with what is known of it and of the data then."""
    if not isinstance(node.stage, FinetuningStage):
        return inputs
    (initial,), (data,) = inputs[INITIAL], inputs[node.stage.data]
    training = trainings[initial.resource]
    begun = Begun(training.model, bytes_digest(b"tokenizer"), training.dataset, training.conversion)
    return {**inputs, INITIAL: (replace(initial, begun=begun),), node.stage.data: (replace(data, count=SAMPLES),)}


def earlier(name: str, *, retracted: str = "", weight: int = 0) -> Result:
    return Result(name, f"manifests/{name}.json", bytes_digest(name.encode()), retracted, weight)


def earlier_checkpoint(name: str) -> Result:
    return Result(name, manifest_of(name), bytes_digest(name.encode()))


def entry(case: Case, contents: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The recipe of a case, and its stages over synthetic results of those before them.

    `contents` are content digests of results by stage, in place of those that follow from the stages' keys.
    """
    read = reading.read(case.text, case.overrides)
    sources = {"": FOLDER, "evaluation": EVALUATION, "other": OTHERS}
    for node in graph.nodes(read):
        if node.hosts is not None:
            sources[node.place] = Source(json.dumps(dict(node.hosts), sort_keys=True), "", "")
    recipe = reading.read(read.over({place: source.input_digest for place, source in sources.items()}).canonical())
    results: dict[str, Result] = {}
    trainings: dict[str, Training] = {}
    found = []
    for node in graph.nodes(recipe):
        elsewhere = {name: earlier_checkpoint(name) for name in node.reads if "/" in name}
        inputs = tuned(node, today(node, node.given({**results, **elsewhere}), case), trainings)
        asked = node.asked(inputs, sources, LOGIC)
        resource, key = node.resource(RUN), graph.reuse_of(node.stage, asked).key
        request = node.stage.request(asked)
        if isinstance(request, JobSpec):
            trainings[resource] = Training.from_json(request.training)
        found.append(
            {
                "stage": node.name,
                "resource": resource,
                "reuse_key": key,
                "request": MessageToDict(request, preserving_proto_field_name=True),
            }
        )
        content = (contents or {}).get(node.name, bytes_digest(key.encode()))
        results[node.name] = Result(resource, manifest_key(node.name, 0, 20), content)
    return {"digest": recipe.digest(), "canonical": recipe.canonical(), "stages": found}


def classifier(path: Path) -> dict[str, Any]:
    """The recipe of a classifier, and what is asked for by it, the machine's path left out."""
    spec = classifierrecipe.spec_of(classifierrecipe.read(path.read_text()), path.parent)
    spec.input_path = Path(spec.input_path).relative_to(ROOT).as_posix()
    return {"request": MessageToDict(spec, preserving_proto_field_name=True)}


def reference() -> dict[str, dict[str, Any]]:
    found = {name: entry(case) for name, case in cases().items()}
    for path in sorted(RECIPES.glob("*.yaml")):
        if is_classifier(path.read_text()):
            found[f"recipes/{path.name}"] = classifier(path)
    return found


def rendered(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def differences(recorded: str, found: str) -> Iterator[str]:
    """Lines of a diff; none where they are equal."""
    yield from difflib.unified_diff(recorded.splitlines(), found.splitlines(), "recorded", "now", n=2, lineterm="")


def main() -> None:
    parser = argparse.ArgumentParser(description="Record recipes, requests and reuse keys in tests/contracts.")
    parser.add_argument("--check", action="store_true", help="compare with what is recorded, and write nothing")
    text = rendered(reference())
    if not parser.parse_args().check:
        FILE.write_text(text)
        print(f"{len(json.loads(text))} recipes recorded in {FILE.relative_to(ROOT)}")
    elif found := "\n".join(differences(FILE.read_text(), text)):
        sys.exit(found)


if __name__ == "__main__":
    main()
