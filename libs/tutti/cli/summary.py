"""The summary of a run: counts, bits per byte compared with the baselines, checkpoints, times."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import click

from tutti.chassis.config.datadir import DEFAULT
from tutti.chassis.errors import NotFound
from tutti.cli import datasets, mixtures, passages, verdict
from tutti.cli.ancestry import ancestry
from tutti.cli.connection import tries, typed
from tutti.cli.naming import models
from tutti.cli.nouns import get_one, list_all
from tutti.cli.output import READING_SECONDS, shown
from tutti.cli.plain import Plain, plain
from tutti.cli.progress import seconds, taken
from tutti.client import Client, Problem
from tutti.contracts.committer.v1 import CurvePoint, GetCurveRequest
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, GetRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.sampling.v1 import ReadSampleRequest
from tutti.records.figures import NEWEST_STEPS, newest_loss
from tutti.web.words import remedy, skipped


def summary(client: Client, run: Run) -> Plain:
    """Everything of a run that its stages' owners know, as plain values; a part that does not exist is null."""
    stages = {stage.name: stage for stage in run.stages}
    found: Plain = {"run": plain(run), "seconds": {name: seconds(stage) for name, stage in stages.items()}}
    found |= dict.fromkeys(TOLD)
    for stage in run.stages:
        if stage.name in TOLD and stage.resource:
            with contextlib.suppress(NotFound):
                found[stage.name] = plain(get_one(client, stage.resource.partition("/")[0], stage.resource))
    found["dataset"], found["mixture"], found["checkpoints"] = None, [], []
    if found["tokenization"] and found["tokenization"]["dataset"]:
        name = found["tokenization"]["dataset"]
        found["dataset"] = datasets.told(plain(client.tokenization.GetDataset(GetRequest(name=name))))
        tokenizer = client.tokenization.GetTokenizer(GetRequest(name=found["dataset"]["tokenizer"]))
        found["dataset"]["vocabulary"] = tokenizer.vocabulary
    if found["train"]:
        with contextlib.suppress(NotFound):
            found["mixture"] = mixtures.mixture(client, found["train"])
        rows = [plain(each) for each in list_all(client, "checkpoints", f"job={found['train']['name']}")]
        found["checkpoints"] = sorted(rows, key=lambda each: (each["line"], each["step"]))
        under_way = stages["train"].state == STATE_RUNNING  # its newest steps are beyond the newest checkpoint
        found["train"] |= loss_of(client, [] if under_way else found["checkpoints"])
        found["train"] |= trained(found["train"], found["dataset"])
    found["ancestry"] = ancestry(run)
    found["models"] = [{"stage": stage, "checkpoint": name} for stage, name in models(client, run)]
    found["continuations"] = [
        {**each, "stage": stage.name}
        for stage in run.stages
        if stage.resource.startswith("samples/") and stage.state == STATE_DONE
        for each in continued(client, stage.resource)
    ]
    return found


def trained(job: Plain, dataset: Plain | None) -> Plain:
    """`parameters` of the model, and how many `passes` over its one dataset the steps were; null where nobody knows."""
    # They bring numpy, for which no other command waits.
    from tutti.model.chunks import Layout
    from tutti.model.training import Training

    if not job["spec"]["training"]:
        return {"parameters": None, "passes": None}
    training = Training.from_json(job["spec"]["training"])
    read = job["step"] * training.step.leaves * training.step.rows
    alone = dataset and dataset["sequences"] and not training.mixture
    passes = read / dataset["sequences"] if dataset and alone else None
    return {"parameters": Layout(training.model).parameters, "passes": passes}


def loss_of(client: Client, checkpoints: Sequence[Plain]) -> Plain:
    """The mean of the `newest_steps` up to the last checkpoint whose loss is known and finite; null for none."""
    points: Sequence[CurvePoint] = ()
    if checkpoints:
        name, step = checkpoints[-1]["name"], checkpoints[-1]["step"]
        asked = GetCurveRequest(name=name, after_step=max(0, step - NEWEST_STEPS))
        with contextlib.suppress(Problem):
            points = client.committer.GetCurve(asked, timeout=READING_SECONDS).points
    mean, steps = newest_loss(each.loss for each in points)
    return {"newest_loss": mean, "newest_steps": steps}


def continued(client: Client, name: str) -> list[Plain]:
    """The texts of a sample, with the passages that they share with what its checkpoint was trained on.

    Of answers to conversations, which may be many, the first SHOWN_ANSWERS.
    """
    spec = client.sampling.GetSample(GetRequest(name=name)).spec
    most = SHOWN_ANSWERS if spec.HasField("prompt_set") else 0
    read = client.sampling.ReadSample(ReadSampleRequest(name=name, page_size=most)).continuations
    return passages.continued(client, [plain(each) for each in read], spec.checkpoint)


TOLD = ("crawl", "ingest", "filter", "dedup", "tokenization", "train", "index", "sample")
"""The stages of which a summary has more than one line."""
ORDINARY = (*TOLD, "evaluation")
"""The stages that top-level keys of a recipe ask for."""
SHOWN_CHECKPOINTS = 3
SHOWN_RULES = 3
SHOWN_SPANS = 2
SHOWN_ANSWERS = 5
SHOWN_LANGUAGES = 5
SHOWN_UNITS = 3


def show_summary(found: Plain, data_dir: Path = DEFAULT) -> None:
    """Print a summary for people; commands that it names are those for this data directory."""
    ingest, chosen, dedup, dataset, job = (found[key] for key in ("ingest", "filter", "dedup", "dataset", "train"))
    lines: list[tuple[str, str]] = [("run", f"{found['run']['name']}  {found['run']['spec']['title']}")]
    if found["crawl"]:
        lines.append(("crawl", visited(found["crawl"]["counts"])))
        if found["crawl"]["spec"]["since"]:
            lines.append(("since", unchanged(found["crawl"])))
    if found["run"].get("input_path"):
        lines.append(("input", found["run"]["input_path"]))
    if ingest:
        lines.append(("pages", f"{ingest['files']:,} ({ingest['rejected']:,} rejected)"))
        if ingest["documents"] + ingest["rejected"] > ingest["files"]:
            lines[-1] = (
                "documents",
                f"{ingest['documents']:,} in {ingest['files']:,} file{'' if ingest['files'] == 1 else 's'} "
                f"({ingest['rejected']:,} rejected)",
            )
    if ingest and ingest["left_out"]:
        share = ingest["rejected"] / max(1, ingest["rejected"] + ingest["documents"])
        lines.append(("left out", f"{share:.1%}: {left_out(ingest['left_out'])}"))
        if todo := remedy({each["reason"]: each["pages"] for each in ingest["left_out"]}):
            lines.append(("", todo))
    if ingest and (masked := [each for each in ingest["masked"] if each["places"]]):
        lines.append(("masked", ", ".join(f"{each['places']:,} {each['kind']}" for each in masked)))
    if chosen and chosen["rejected"]:
        worst = sorted(chosen["rules"], key=lambda each: -each["documents"])
        rules = ", ".join(f"{each['documents']:,} {each['rule']}" for each in worst[:SHOWN_RULES])
        if others := worst[SHOWN_RULES:]:
            rules += f", {sum(each['documents'] for each in others):,} by {len(others)} more"
        lines.append(("filtered", f"{chosen['rejected']:,} of them rejected by rules: {rules}"))
    if dedup:
        near = f", {dedup['near_duplicates']:,} of them near" if dedup["near_duplicates"] else ""
        near += f", {dedup['earlier']:,} of earlier datasets" if dedup["earlier"] else ""
        near += f"; {dedup['contaminated']:,} contaminated" if dedup["contaminated"] else ""
        lines.append(("documents", f"{dedup['documents']:,} kept, {dedup['duplicates']:,} duplicates{near}"))
        if dedup["cut_documents"] or dedup["short"]:
            lines.append(("cut out", cut_out(dedup)))
            if dedup["short"]:
                lines.append(("", f"{dedup['short']:,} documents were left out, since too little was left of them"))
            lines += [("", f"in {each['documents']:,}: {each['text']}") for each in dedup["repeated"][:SHOWN_UNITS]]
    if dataset:
        lines.append(("tokens", f"{dataset['tokens']:,} to train on, {dataset['validation_tokens']:,} held out"))
        if (asked := found["tokenization"]["spec"]["vocabulary"]) > dataset["vocabulary"]:
            few = f"{dataset['vocabulary']:,} of {asked:,} asked for: there is too little text to learn more"
            lines.append(("vocabulary", few))
        if dataset["packing"]:
            lines.append(("packed", packed(dataset)))
        if dataset["bytes_a_token"] is not None:
            lines.append(("bytes a token", by_language(dataset)))
    lines += [("mixture", words) for words in mixtures.words(found["mixture"])]
    if job:
        lines.append(("job", job["name"]))
        if job["parameters"]:
            passes = f", {job['passes']:.1f} passes over the tokens" if job["passes"] is not None else ""
            lines.append(("model", f"{job['parameters']:,} parameters{passes}"))
        loss, what = verdict.loss(job)
        lines.append(("steps", f"{job['step']:,} on {ranks(job)}, loss {loss:.4f}, {what}"))
        if job["skipped"]:
            lines.append(("skipped", skipped(job["skipped"], job["skipped_in_a_row"])))
    for stage in found["run"]["stages"]:
        if stage["name"] not in ORDINARY and stage["summary"]:
            lines.append((stage["name"], stage["summary"]))
    for name, value in lines:
        click.echo(f"{name:13} {value}")
    if dataset and job and job["bits_per_byte"] is not None:
        show_quality(job, dataset, found["mixture"])
    checkpoints = found["checkpoints"]
    if len(checkpoints) > SHOWN_CHECKPOINTS:
        every = typed("tutti checkpoints ls", data_dir)
        click.echo(f"{'checkpoints':14}{len(checkpoints)}, the last {SHOWN_CHECKPOINTS}; all: `{every}`")
    for checkpoint in checkpoints[-SHOWN_CHECKPOINTS:]:
        click.echo(
            f"{'checkpoint':14}step {checkpoint['step']:>6}  model {shown(checkpoint['model_digest'], short=True)}"
            f"  state {shown(checkpoint['state_digest'], short=True)}  {checkpoint['bytes']:,} bytes"
        )
    show_continuations(found["continuations"])
    for label, command in tries([(each["stage"], each["checkpoint"]) for each in found["models"]], data_dir):
        click.echo(f"{label:13} {command}")
    click.echo(f"{'took':14}{times(found)}")


def times(found: Plain) -> str:
    """The duration of each stage."""
    return ", ".join(
        f"{name} {'reused' if stage['reused'] else taken(found['seconds'][name], stage['resumptions'])}"
        for stage in found["run"]["stages"]
        if (name := stage["name"])
    )


def ranks(job: Plain) -> str:
    count = job["shape"]["data_parallel"]
    return f"{count:,} rank{'s' if count != 1 else ''}"


def left_out(counts: list[Plain]) -> str:
    """The number of pages and records left out for each reason, the most frequent first."""
    most = sorted(counts, key=lambda each: -each["pages"])
    return ", ".join(f"{each['pages']:,} {each['reason']}" for each in most)


def cut_out(dedup: Plain) -> str:
    """The text that was cut from documents that were kept."""
    asked = dedup["spec"]
    what = [f"{dedup['cut_units']:,} {asked['lines']['unit']}s that are repeated"] if asked["lines"] else []
    what += [f"{dedup['cleaned_lines']:,} lines that C4 removes"] if asked["clean"] else []
    return f"{' and '.join(what)}, of {dedup['cut_documents']:,} documents, {dedup['cut_bytes']:,} bytes"


def packed(dataset: Plain) -> str:
    """Into how many sequences, how, and what of them is padding."""
    how = "by best fit" if dataset["packing"] == "best_fit" else "as one stream"
    sequences = f"{dataset['sequences']:,} sequences of {dataset['context']:,} tokens"
    return f"{sequences} {how}, {100 * dataset['waste']:.2f} % of them padding"


def by_language(dataset: Plain) -> str:
    """Bytes a token of all texts, and of those languages that have most."""
    most = dataset["languages"][:SHOWN_LANGUAGES]
    rest = len(dataset["languages"]) - len(most)
    told = [f"{each['language']} {each['bytes_a_token']:.2f}" for each in most if each["bytes_a_token"] is not None]
    return f"{dataset['bytes_a_token']:.2f}  ({', '.join(told)}{f' and {rest} more' if rest else ''})"


def show_continuations(continuations: list[Plain]) -> None:
    """Each text, and below it its longest verbatim spans."""
    for each in continuations:
        text = json.dumps(f"{each['prompt']}{each['text']}", ensure_ascii=False)
        click.echo(f"{each.get('stage', 'sample'):13} {text}")
        if not each["passages"] and (words := passages.nothing(each)):
            click.echo(f"{'':16}{words}")
        for passage in passages.longest(each["passages"] or [], SHOWN_SPANS):
            for line in passages.lines(passage):
                click.echo(f"{'':16}{line}")
    if gone := passages.unsearched(continuations):
        click.echo(f"{'':16}{gone}")


def unchanged(crawl: Plain) -> str:
    """The savings from an earlier crawl, in words."""
    return (
        f"{crawl['not_modified']:,} answers not modified, {crawl['bytes_saved']:,} bytes not sent; "
        f"{crawl['identical']:,} sent and identical; {crawl['spec']['since']}"
    )


def visited(counts: list[Plain]) -> str:
    """The outcomes of the URLs of a crawl, in words."""
    of = {each["what"]: each["pages"] for each in counts}
    seen = sum(pages for what, pages in of.items() if what.startswith("visited/"))
    others = sorted(((pages, what) for what, pages in of.items() if what != "visited/page"), reverse=True)
    rest = ", ".join(f"{pages:,} {what.removeprefix('visited/')}" for pages, what in others)
    return f"{seen:,} URLs visited, {of.get('visited/page', 0):,} pages{f'; {rest}' if rest else ''}"


def show_quality(job: Plain, dataset: Plain, mixture: list[Plain]) -> None:
    model: float = job["bits_per_byte"]
    unigram, bigram, xz = (dataset[f"{name}_bits_per_byte"] for name in ("unigram", "bigram", "xz"))
    click.echo(
        f"{'bits per byte':14}{model:.3f}  (unigram {unigram:.3f}, Kneser-Ney bigram {bigram:.3f}, xz primed {xz:.3f})"
    )
    apart, change = verdict.beside_bigram(job, dataset), verdict.advice(job, dataset, mixture)
    click.echo(f"{'':14}{apart} the bigram{f': worse than a bigram model; {change}' if change else ''}")
    if few := verdict.rough(dataset):
        click.echo(f"{'':14}{few}")
    if not change and xz < model:
        click.echo(f"{'':14}xz wins: it was primed with the training text, and pages share boilerplate")
