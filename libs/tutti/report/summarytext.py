"""The summary of a run as lines for people. Pure."""

import json
from collections.abc import Iterator
from pathlib import Path

from tutti.chassis.config.datadir import DEFAULT
from tutti.client.plain import Plain
from tutti.client.titles import title_in
from tutti.records.counts import counted
from tutti.report import mixtures, passages, verdict
from tutti.report.durations import taken
from tutti.report.figures import ranks
from tutti.report.hints import tries, typed
from tutti.report.summary import ORDINARY
from tutti.report.values import shown
from tutti.web.formats import remedy, skipped

SHOWN_CHECKPOINTS = 3
SHOWN_RULES = 3
SHOWN_SPANS = 2
SHOWN_LANGUAGES = 5
SHOWN_UNITS = 3


def lines(found: Plain, data_dir: Path = DEFAULT) -> Iterator[str]:
    """Yield a summary for people, line by line; commands that it names are those for this data directory."""
    ingest, chosen, dedup, dataset, job = (found[key] for key in ("ingest", "filter", "dedup", "dataset", "train"))
    rows: list[tuple[str, str]] = [("run", f"{found['run']['name']}  {title_in(found['run'])}")]
    if found["crawl"]:
        rows.append(("crawl", visited(found["crawl"]["counts"])))
        if found["crawl"]["spec"]["since"]:
            rows.append(("since", unchanged(found["crawl"])))
    if found["run"].get("input_path"):
        rows.append(("input", found["run"]["input_path"]))
    if ingest:
        rows.append(("pages", f"{ingest['files']:,} ({ingest['rejected']:,} rejected)"))
        if ingest["documents"] + ingest["rejected"] > ingest["files"]:
            rows[-1] = (
                "documents",
                f"{ingest['documents']:,} in {counted(ingest['files'], 'file')} ({ingest['rejected']:,} rejected)",
            )
    if ingest and ingest["left_out"]:
        share = ingest["rejected"] / max(1, ingest["rejected"] + ingest["documents"])
        rows.append(("left out", f"{share:.1%}: {left_out(ingest['left_out'])}"))
        if todo := remedy({each["reason"]: each["pages"] for each in ingest["left_out"]}):
            rows.append(("", todo))
    if ingest and (masked := [each for each in ingest["masked"] if each["places"]]):
        rows.append(("masked", ", ".join(f"{each['places']:,} {each['kind']}" for each in masked)))
    if chosen and chosen["rejected"]:
        worst = sorted(chosen["rules"], key=lambda each: -each["documents"])
        rules = ", ".join(f"{each['documents']:,} {each['rule']}" for each in worst[:SHOWN_RULES])
        if others := worst[SHOWN_RULES:]:
            rules += f", {sum(each['documents'] for each in others):,} by {len(others)} more"
        rows.append(("filtered", f"{chosen['rejected']:,} of them rejected by rules: {rules}"))
    if dedup:
        near = f", {dedup['near_duplicates']:,} of them near" if dedup["near_duplicates"] else ""
        near += f", {dedup['earlier']:,} of earlier datasets" if dedup["earlier"] else ""
        near += f"; {dedup['contaminated']:,} contaminated" if dedup["contaminated"] else ""
        rows.append(("documents", f"{dedup['documents']:,} kept, {counted(dedup['duplicates'], 'duplicate')}{near}"))
        if dedup["cut_documents"] or dedup["short"]:
            rows.append(("cut out", cut_out(dedup)))
            if dedup["short"]:
                rows.append(("", f"{dedup['short']:,} documents were left out, since too little was left of them"))
            rows += [("", f"in {each['documents']:,}: {each['text']}") for each in dedup["repeated"][:SHOWN_UNITS]]
    if dataset:
        rows.append(("tokens", f"{dataset['tokens']:,} to train on, {dataset['validation_tokens']:,} held out"))
        if (asked := found["tokenization"]["spec"]["vocabulary"]) > dataset["vocabulary"]:
            few = f"{dataset['vocabulary']:,} of {asked:,} asked for: there is too little text to learn more"
            rows.append(("vocabulary", few))
        if dataset["packing"]:
            rows.append(("packed", packed(dataset)))
        if dataset["bytes_a_token"] is not None:
            rows.append(("bytes a token", by_language(dataset)))
    rows += [("mixture", words) for words in mixtures.words(found["mixture"])]
    if job:
        rows.append(("job", job["name"]))
        if job["parameters"]:
            passes = f", {job['passes']:.1f} passes over the tokens" if job["passes"] is not None else ""
            rows.append(("model", f"{job['parameters']:,} parameters{passes}"))
        loss, what = verdict.loss(job)
        rows.append(("steps", f"{job['step']:,} on {ranks(job['shape']['data_parallel'])}, loss {loss:.4f}, {what}"))
        if job["skipped"]:
            rows.append(("skipped", skipped(job["skipped"], job["skipped_in_a_row"])))
    for stage in found["run"]["stages"]:
        if stage["name"] not in ORDINARY and stage["summary"]:
            rows.append((stage["name"], stage["summary"]))
    for name, value in rows:
        yield f"{name:13} {value}"
    if dataset and job and job["bits_per_byte"] is not None:
        yield from quality(job, dataset, found["mixture"])
    checkpoints = found["checkpoints"]
    if len(checkpoints) > SHOWN_CHECKPOINTS:
        every = typed("tutti checkpoints ls", data_dir)
        yield f"{'checkpoints':14}{len(checkpoints)}, the last {SHOWN_CHECKPOINTS}; all: `{every}`"
    for checkpoint in checkpoints[-SHOWN_CHECKPOINTS:]:
        yield (
            f"{'checkpoint':14}step {checkpoint['step']:>6}  model {shown(checkpoint['model_digest'], short=True)}"
            f"  state {shown(checkpoint['state_digest'], short=True)}  {checkpoint['bytes']:,} bytes"
        )
    yield from continuations(found["continuations"])
    for label, command in tries([(each["stage"], each["checkpoint"]) for each in found["models"]], data_dir):
        yield f"{label:13} {command}"
    yield f"{'took':14}{times(found)}"


def times(found: Plain) -> str:
    """The duration of each stage."""
    return ", ".join(
        f"{name} {'reused' if stage['reused'] else taken(found['seconds'][name], stage['resumptions'])}"
        for stage in found["run"]["stages"]
        if (name := stage["name"])
    )


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


def continuations(found: list[Plain]) -> Iterator[str]:
    """Each text, and below it its longest verbatim spans."""
    for each in found:
        text = json.dumps(f"{each['prompt']}{each['text']}", ensure_ascii=False)
        yield f"{each.get('stage', 'sample'):13} {text}"
        if not each["passages"] and (words := passages.nothing(each)):
            yield f"{'':16}{words}"
        for passage in passages.longest(each["passages"] or [], SHOWN_SPANS):
            for line in passages.lines(passage):
                yield f"{'':16}{line}"
    if gone := passages.unsearched(found):
        yield f"{'':16}{gone}"


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


def quality(job: Plain, dataset: Plain, mixture: list[Plain]) -> Iterator[str]:
    """Yield the bits per byte of a model beside those of the baselines, and what to change."""
    model: float = job["bits_per_byte"]
    unigram, bigram, xz = (dataset[f"{name}_bits_per_byte"] for name in ("unigram", "bigram", "xz"))
    yield (
        f"{'bits per byte':14}{model:.3f}  (unigram {unigram:.3f}, Kneser-Ney bigram {bigram:.3f}, xz primed {xz:.3f})"
    )
    apart, change = verdict.beside_bigram(job, dataset), verdict.advice(job, dataset, mixture)
    yield f"{'':14}{apart} the bigram{f': worse than a bigram model; {change}' if change else ''}"
    if few := verdict.rough(dataset):
        yield f"{'':14}{few}"
    if not change and xz < model:
        yield f"{'':14}xz wins: it was primed with the training text, and pages share boilerplate"
