"""A curve for a terminal: a line of bars, and a table of some of its steps."""

import itertools
import math
from collections.abc import Sequence

import click

from tutti.cli.output import TEXT, print_list, say
from tutti.client.plain import Plain
from tutti.contracts.committer.v1 import CurvePoint, GetCurveResponse
from tutti.web.charts import titled

BARS = "▁▂▃▄▅▆▇█"
WIDTH, ROWS = 60, 12


def sparkline(values: Sequence[float], *, width: int = WIDTH) -> str:
    """The mean of each stretch as a bar between the lowest and the highest one; a dot where no value is finite."""
    width = min(width, len(values))
    cuts = [len(values) * at // max(width, 1) for at in range(width + 1)]
    means = [_mean(values[begin:end]) for begin, end in itertools.pairwise(cuts)]
    finite = [mean for mean in means if math.isfinite(mean)]
    if not finite:
        return "·" * width
    lowest, span = min(finite), (max(finite) - min(finite)) or 1.0
    top = len(BARS) - 1
    return "".join(BARS[round(top * (mean - lowest) / span)] if math.isfinite(mean) else "·" for mean in means)


def show_curve(answer: GetCurveResponse) -> None:
    """Print it for people."""
    if not answer.points:
        say("nothing is known of these steps")
    else:
        losses = [point.loss for point in answer.points]
        finite = [point for point in answer.points if math.isfinite(point.loss)]
        words = _losses(finite) if finite else "no finite loss"
        click.echo(f"{sparkline(losses)}  {words}")
        click.echo(f"{answer.steps:,} steps, {answer.skipped:,} skipped, {answer.missing:,} missing")
        print_list(_rows(answer), ("step", "loss", "gradient_norm", "rate", "tokens", "note"), TEXT, nothing="")
        for metric in answer.metrics:
            values = [each.value for each in metric.values]
            told = [value for value in values if math.isfinite(value)]
            words = f"{titled(metric.name)} {told[0]:.4g} to {told[-1]:.4g}" if told else "nothing finite"
            click.echo(f"{sparkline(values)}  {words}")
    for gap in answer.gaps:
        say(f"steps {gap.first_step} to {gap.last_step} are missing: {gap.reason}")


def _losses(points: Sequence[CurvePoint]) -> str:
    """The losses of single steps, each with its step: "loss" alone is the mean of the newest steps."""
    lowest = min(points, key=lambda each: each.loss)
    named = (("first", points[0]), ("last", points[-1]), ("lowest", lowest))
    return "loss of single steps: " + ", ".join(f"{name} {each.loss:.4f} (step {each.step:,})" for name, each in named)


def _rows(answer: GetCurveResponse) -> list[Plain]:
    """Some of its steps, the first and the last among them, with what validation said at the last of each."""
    count = len(answer.points)
    chosen = sorted({at * (count - 1) // max(1, min(ROWS, count) - 1) for at in range(min(ROWS, count))})
    bits = {each.step: each.bits_per_byte for each in answer.validations if each.HasField("bits_per_byte")}
    rows = []
    for at in chosen:
        point = answer.points[at]
        note = "skipped" if point.skipped else f"{bits[point.step]:.4f} bits a byte" if point.step in bits else ""
        rows.append(
            {
                "step": point.step,
                "loss": round(point.loss, 4) if math.isfinite(point.loss) else point.loss,
                "gradient_norm": point.gradient_norm,
                "rate": point.rate,
                "tokens": point.tokens,
                "note": note,
            }
        )
    return rows


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
