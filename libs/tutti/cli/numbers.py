"""Numbers as options: what is in a range."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers, which `nan` and `inf` are not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found
