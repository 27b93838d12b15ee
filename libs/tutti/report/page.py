"""The page of a report: a pure function from facts to HTML that needs nothing beside itself.

No script, no address of anything elsewhere; the policy in its head lets nothing but its own style in. Whatever a page
on the web said is text here: escaped, and apart from the direction of what stands around it.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from tutti.chassis.config.datadir import DEFAULT
from tutti.chassis.version import VERSION
from tutti.client.plain import Plain, indented
from tutti.client.titles import title_in
from tutti.contracts.committer.v1 import GetCurveResponse
from tutti.records.sizes import size
from tutti.report import figures, passages, verdict
from tutti.report.abilities import groups
from tutti.report.facts import Facts
from tutti.report.figures import Figure
from tutti.report.hints import tries
from tutti.report.outcomes import outcome, reason
from tutti.report.policies import drawn, spread
from tutti.report.samples import samples, visible
from tutti.report.summary import ORDINARY
from tutti.web.charts import Series, describe, smoothed
from tutti.web.curves import curves
from tutti.web.formats import count, duration, moment
from tutti.web.formats import drawn as fitted

SHOWN_CHECKPOINTS, SHOWN_STEPS, SHOWN_LANGUAGES, LONGEST = 30, 12, 20, 160


@dataclass(frozen=True)
class Part:
    """A section, and its place in the list at the top."""

    id: str
    title: str


@dataclass(frozen=True)
class FunnelRow:
    """The documents that a stage kept, of `share` x the first, and the number it left out (None for the first)."""

    name: str
    left: int
    gone: int | None
    share: float


@dataclass(frozen=True)
class Drawn:
    """A chart and what is said below it."""

    title: str
    svg: Markup
    words: str
    legend: str
    large: bool = False


def page(facts: Facts) -> str:
    """The report as one HTML document."""
    style = (files(__package__) / "page.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    head = {"style": Markup(style), "style_hash": f"sha256-{digest}"}  # noqa: S704  (our own file)
    return str(_template("page.html").render(_values(facts), **head))


def body(facts: Facts) -> Markup:
    """The report as a part of another page, which brings the style."""
    values = _values(facts)
    parts = (_template(name).render(values) for name in ("head.html", "sections.html"))
    return Markup("\n".join(parts))  # noqa: S704  (escaped where it is made)


def _values(facts: Facts) -> dict[str, Any]:
    """The variables of the templates."""
    found = facts.summary
    run, dataset, job = found["run"], found["dataset"], found["train"]
    checkpoints = found["checkpoints"][-SHOWN_CHECKPOINTS:]
    values: dict[str, Any] = {
        "title": title_in(run) or run["name"],
        "run": run,
        "source": _source(found),
        "recipe": _recipe(run),
        "took": found["took"],
        "figures": _figures(found, facts.curve),
        "settings": _settings(found, facts.machines),
        "funnel": _funnel(found),
        "visited": sorted(found["crawl"]["counts"], key=lambda each: -each["pages"]) if found["crawl"] else [],
        "pages": facts.pages,
        "dedup": found["dedup"],
        "dataset": dataset,
        "shown_languages": SHOWN_LANGUAGES,
        "references": facts.references,
        "job": job,
        "charts": [
            Drawn(series.title, svg, describe(series), _legend(series), series.large)
            for at, series in enumerate(curves(facts.curve))
            if (svg := fitted(series, f"chart{at}"))
        ],
        "curve": facts.curve,
        "steps": _steps(facts.curve),
        "quality": _quality(job, dataset),
        "verdict": _verdict(job, dataset, found["mixture"]),
        "mixture": found["mixture"],
        "samples": samples(found["continuations"]),
        "unsearched": passages.unsearched(found["continuations"]),
        "least": passages.LEAST,
        "checkpoints": checkpoints,
        "tries": tries([(each["stage"], each["checkpoint"]) for each in found["models"]], DEFAULT),
        "more_checkpoints": len(found["checkpoints"]) if len(found["checkpoints"]) > len(checkpoints) else 0,
        "outcomes": _outcomes(found),
        "abilities": groups(facts.answers),
        "held": facts.answers.held,
        "policies": drawn(facts.policies),
        "ancestry": found["ancestry"] if any(each["from"] for each in found["ancestry"]) else [],
        "stages": _stages(found),
        "digests": _digests(found),
        "version": VERSION,
    }
    return {**values, "parts": _parts(values)}


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # no other command waits for it

    loader = FileSystemLoader(str(files(__package__)))
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "count": count,
        "duration": duration,
        "moment": moment,
        "outcome": outcome,
        "reason": reason,
        "sentence": sentence,
        "shortened": shortened,
        "size": size,
    }
    return environment.get_template(name)


def sentence(words: str) -> str:
    """Words that stand alone; "" where there are none."""
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def shortened(text: str) -> str:
    """At most LONGEST characters on one line, without characters that cannot be seen."""
    told = visible(text).replace("\n", " ")
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 20]}…{told[-19:]}"


def _recipe(run: Plain) -> str:
    """As it was carried out, with every default; "" where it is not known."""
    text = run["spec"]["recipe"]
    return visible(indented(json.loads(text))) if text else ""


def _source(found: Plain) -> str:
    """The source of the texts: the first pages of the crawl, or the folder."""
    read = json.loads(found["run"]["spec"]["recipe"] or "{}").get("input", {})
    seeds = ", ".join((read.get("crawl") or {}).get("seeds", ()))
    return seeds or found["run"].get("input_path") or read.get("path", "")


def _figures(found: Plain, curve: GetCurveResponse) -> list[Figure]:
    ingest, dedup, dataset, job = (found[key] for key in ("ingest", "dedup", "dataset", "train"))
    rows = []
    if ingest and dedup and dedup["state"] == "done":
        rows.append(Figure("Documents kept", f"{dedup['documents']:,}", f"of {_read(ingest):,} read"))
    if dataset:
        rows.append(figures.tokens(dataset["tokens"], dataset["validation_tokens"]))
    if job and job["parameters"]:
        read = f"{job['passes']:.1f} passes over the tokens" if job["passes"] is not None else "of a mixture"
        rows.append(Figure("Parameters", f"{job['parameters']:,}", read))
    if job:
        rows.append(figures.steps(job["step"], f"on {figures.ranks(job['shape']['data_parallel'])}"))
        rows += [_loss(job, curve)] if job["step"] else []
        rows += figures.skips(job["skipped"], job["skipped_in_a_row"])
        if (gap := _gap(curve)) is not None:
            rows.append(Figure("Gap", f"{gap:+.3f}", "nats, held-out text less training, smoothed"))
        if job["tokens_per_second"]:
            rows.append(Figure("Speed", f"{job['tokens_per_second']:,.0f}", "tokens a second"))
    if job and job["bits_per_byte"] is not None:
        rows.append(figures.bits_per_byte(job["bits_per_byte"], _beside_bigram(job, dataset)))
    if found["checkpoints"]:
        rows.append(figures.checkpoints(len(found["checkpoints"]), f"last: step {job['decided_step']:,}"))
    return rows


def _loss(job: Plain, curve: GetCurveResponse) -> Figure:
    """Beside that of the text that was held out."""
    loss, what = verdict.loss(job)
    if checked := [each.nats / each.tokens for each in curve.validations if each.tokens]:
        what += f"; {checked[-1]:.3f} on held-out text"
    return figures.loss(loss, what)


def _gap(curve: GetCurveResponse) -> float | None:
    """Return the newest held-out loss less the smoothed training loss of its step, in nats a token."""
    checked = [each for each in curve.validations if each.tokens]
    before = [
        value
        for step, value in smoothed([(each.step, each.loss) for each in curve.points])
        if checked and step <= checked[-1].step
    ]
    return checked[-1].nats / checked[-1].tokens - before[-1] if before else None


def _settings(found: Plain, machines: Sequence[str]) -> list[tuple[str, str]]:
    """Return what was trained how, where, and what its checkpoints are called, by name."""
    job = found["train"]
    if not job:
        return []
    told = json.loads(job["spec"]["training"] or "{}")
    model, optimizer, step = (told.get(each, {}) for each in ("model", "optimizer", "step"))
    rows = [("Machine", ", ".join(machines))]
    if model:
        heads = f"{model.get('heads')} heads" + (f" ({model['kv_heads']} of keys)" if "kv_heads" in model else "")
        rows.append(
            (
                "Model",
                f"{model.get('layers')} layers, width {model.get('width')}, {heads}, "
                f"vocabulary {model.get('vocabulary'):,}, context {model.get('context'):,}",
            )
        )
    if optimizer:
        known = {
            "peak_rate": "learning rate",
            "warmup_steps": "warmup",
            "weight_decay": "weight decay",
            "clip_norm": "clipping",
        }
        rows.append(
            ("Optimizer", ", ".join(f"{name} {optimizer[key]:g}" for key, name in known.items() if key in optimizer))
        )
    if step and model:
        tokens = step["leaves"] * step["rows"] * model["context"]
        rows.append(
            (
                "Batch",
                f"{tokens:,} tokens a step: {step['leaves']} microbatches of {step['rows']} rows, "
                f"seed {step.get('seed', 0)}",
            )
        )
    names = [each["name"] for each in found["checkpoints"]]
    rows.append(
        ("Checkpoints", f"{names[-1]}{f' and {len(names) - 1} before' if len(names) > 1 else ''}" if names else "")
    )
    return [(name, value) for name, value in rows if value]


def _read(ingest: Plain) -> int:
    return int(ingest["documents"] + ingest["rejected"])


def _beside_bigram(job: Plain, dataset: Plain | None) -> str:
    if not dataset or not dataset["bigram_bits_per_byte"]:
        return "held-out text"
    return f"{verdict.beside_bigram(job, dataset)} a bigram"


def _verdict(job: Plain | None, dataset: Plain | None, mixture: Sequence[Plain]) -> str:
    """A sentence that compares the model with a bigram model; "" if that was not measured."""
    if not job or not dataset or job["bits_per_byte"] is None or not dataset["bigram_bits_per_byte"]:
        return ""
    told = f"The model lies {_beside_bigram(job, dataset)}"
    if change := verdict.advice(job, dataset, mixture):
        told += f": worse than a bigram model of the tokens. What to do: {change}."
    else:
        told += ": it knows more than pairs of tokens tell."
    few = verdict.rough(dataset)
    return f"{told} {sentence(few)}" if few else told


def _funnel(found: Plain) -> list[FunnelRow]:
    ingest, chosen, dedup = found["ingest"], found["filter"], found["dedup"]
    if not ingest:
        return []
    first = max(_read(ingest), 1)
    rows = [("Read", first, None), ("Extracted as documents", ingest["documents"], ingest["rejected"])]
    left = ingest["documents"]
    if chosen and chosen["state"] == "done":
        left -= chosen["rejected"]
        rows.append(("Kept by the rules", left, chosen["rejected"]))
    if dedup and dedup["state"] == "done":
        if dedup["contaminated"]:
            rows.append(("Free of evaluation texts", left - dedup["contaminated"], dedup["contaminated"]))
        rows.append(("Not a duplicate", dedup["documents"] + dedup["short"], dedup["duplicates"]))
        if dedup["short"]:
            rows.append(("Enough left of it", dedup["documents"], dedup["short"]))
    return [FunnelRow(name, count, gone, count / first) for name, count, gone in rows]


def _quality(job: Plain | None, dataset: Plain | None) -> list[dict[str, Any]]:
    if not job or not dataset or job["bits_per_byte"] is None:
        return []
    rows = [("This model", job["bits_per_byte"], True)]
    for name, key in (("Unigram", "unigram"), ("Kneser-Ney bigram", "bigram"), ("xz, primed", "xz")):
        rows.append((name, dataset[f"{key}_bits_per_byte"], False))
    most = max(bits for _, bits, _ in rows) or 1.0
    ordered = sorted(rows, key=lambda each: each[1])
    return [{"name": name, "bits": bits, "ours": ours, "share": bits / most} for name, bits, ours in ordered]


def _stages(found: Plain) -> list[dict[str, Any]]:
    longest = max([*found["seconds"].values(), 0.001])
    return [
        {
            "name": stage["name"],
            "state": "reused" if stage["reused"] else stage["state"],
            "seconds": found["seconds"][stage["name"]],
            "share": found["seconds"][stage["name"]] / longest,
            "digest": stage["content_digest"],
            "reason": stage["reason"] if stage["state"] not in ("done", "pending") else "",
        }
        for stage in found["run"]["stages"]
    ]


def _outcomes(found: Plain) -> list[tuple[str, str]]:
    """The outcomes of the stages that a recipe names."""
    stages = found["run"]["stages"]
    return [(each["name"], each["summary"]) for each in stages if each["name"] not in ORDINARY and each["summary"]]


def _digests(found: Plain) -> list[tuple[str, str]]:
    told = [("Recipe", found["run"]["spec"]["recipe_digest"])]
    if found["checkpoints"]:
        last = found["checkpoints"][-1]
        told += [("Dataset", last["dataset_digest"]), ("Model", last["model_digest"]), ("State", last["state_digest"])]
    return [each for each in told if each[1]]


def _steps(curve: GetCurveResponse) -> list[dict[str, Any]]:
    """Some steps, the first and the last among them."""
    chosen = spread(len(curve.points), SHOWN_STEPS)
    bits = {each.step: each.bits_per_byte for each in curve.validations if each.HasField("bits_per_byte")}
    found = []
    for point in (curve.points[at] for at in chosen):
        note = "skipped" if point.skipped else f"{bits[point.step]:.3f} bits a byte" if point.step in bits else ""
        numbers = {"loss": point.loss, "gradient_norm": point.gradient_norm, "rate": point.rate}
        found.append({"step": point.step, "note": note, **numbers})
    return found


def _legend(series: Series) -> str:
    told: Sequence[tuple[object, str]] = (
        ([each for each in series.dots if math.isfinite(each[1])], "Rings, dashed: on the held-out text."),
        (series.large and smoothed(series.points), "Thick: smoothed. Thin: each step."),
        (series.marks, "Red marks at the foot: steps that all ranks skipped."),
    )
    return " ".join(words for there, words in told if there)


def _parts(values: dict[str, Any]) -> list[Part]:
    sections = (
        ("documents", "Documents", values["funnel"]),
        ("rejected", "Rejected", values["pages"].rules),
        ("duplicates", "Duplicates", values["dedup"] and values["dedup"]["state"] == "done"),
        ("tokens", "Tokens", values["dataset"]),
        ("training", "Training", values["job"]),
        ("quality", "Quality", values["quality"]),
        ("samples", "Samples", values["samples"]),
        ("checkpoints", "Checkpoints", values["checkpoints"]),
        ("abilities", "What it can do", values["abilities"]),
        ("policies", "Policies", values["policies"]),
        ("outcomes", "Outcomes", values["outcomes"]),
        ("ancestry", "Ancestry", values["ancestry"]),
        ("stages", "Stages and digests", True),
    )
    return [Part(ident, title) for ident, title, there in sections if there]
