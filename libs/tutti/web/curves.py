"""The curves and the loss of a training as they are shown: by the pages, the report and the commands alike.

Pure. Promises: a line is broken where steps are missing, and "loss" is the mean of the newest steps wherever it is one
figure (`tutti.records.figures`).
"""

import math

from tutti.contracts.committer.v1 import CurvePoint, GetCurveResponse
from tutti.records.figures import COUNTS
from tutti.web.charts import Series, titled


def loss(reported: float, newest: float | None, newest_steps: int) -> tuple[float, str]:
    """Nats a token of the newest steps, and a text that says which steps.

    `newest` is the mean of the last `newest_steps` of a curve; without one, the mean that the job `reported` counts.
    """
    if newest is None:
        return reported, "mean of the newest steps"
    return newest, f"mean of the last {newest_steps} steps" if newest_steps > 1 else "of the only step that is known"


def curves(curve: GetCurveResponse) -> list[Series]:
    """Loss with the validation loss, gradient norm, learning rate, metrics of the program."""
    unknown = math.nan
    holes = [CurvePoint(step=gap.first_step, loss=unknown, gradient_norm=unknown, rate=unknown) for gap in curve.gaps]
    points = sorted([*curve.points, *holes], key=lambda each: each.step)
    skipped = [point.step for point in curve.points if point.skipped]
    held_out = [(each.step, each.nats / each.tokens) for each in curve.validations if each.tokens]
    norms = [(point.step, point.gradient_norm) for point in points]
    return [
        Series("Loss", "Nats a token", [(each.step, each.loss) for each in points], held_out, skipped, large=True),
        Series("Gradient norm", "Before clipping", norms, marks=skipped, logarithmic=True),
        Series("Learning rate", "Of each step", [(point.step, point.rate) for point in points]),
        *(
            Series(titled(each.name), "Measured by the program", [(one.step, one.value) for one in each.values])
            for each in curve.metrics
            if each.name not in COUNTS
        ),
    ]
