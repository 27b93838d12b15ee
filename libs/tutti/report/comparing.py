"""Two runs side by side: the settings, figures and times in which they differ."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tutti.client.plain import Plain
from tutti.report.values import shown
from tutti.report.verdict import loss
from tutti.web.formats import duration


def compared(first: Plain, second: Plain, *, every: bool = False) -> list[Plain]:
    """Return a row for each figure of two summaries, then one for each setting that differs (`every`: or not)."""
    rows = [
        {"what": name, "a": value, "b": other, "differs": value != other}
        for (name, value), other in zip(figures(first).items(), figures(second).values(), strict=True)
    ]
    mine, other = (dict(_leaves(json.loads(each["run"]["spec"]["recipe"] or "{}"))) for each in (first, second))
    for key in sorted(mine.keys() | other.keys()):
        differs = mine.get(key) != other.get(key)
        if differs or every:
            rows.append({"what": key, "a": _text(mine.get(key)), "b": _text(other.get(key)), "differs": differs})
    return rows


def figures(found: Plain) -> dict[str, str]:
    """Return what a run came to, by name; "-" for what it has not."""
    dedup, dataset, job, checkpoints = (found[key] for key in ("dedup", "dataset", "train", "checkpoints"))
    told = {
        "run": found["run"]["name"],
        "title": found["run"]["spec"]["title"],
        "state": found["run"]["state"],
        "documents kept": f"{dedup['documents']:,}" if dedup else "",
        "tokens": f"{dataset['tokens']:,}" if dataset else "",
        "parameters": f"{job['parameters']:,}" if job and job["parameters"] else "",
        "steps": f"{job['step']:,}" if job else "",
        "loss": f"{loss(job)[0]:.4f}" if job else "",
        "bits per byte": f"{job['bits_per_byte']:.4f}" if job and job["bits_per_byte"] is not None else "",
        "tokens a second": f"{job['tokens_per_second']:,.0f}" if job and job["tokens_per_second"] else "",
        "took": duration(sum(found["seconds"].values())),
        "model digest": shown(checkpoints[-1]["model_digest"], short=True) if checkpoints else "",
    }
    return {name: value or "-" for name, value in told.items()}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
