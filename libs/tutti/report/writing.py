"""Writing a report: the page, and its curves as pictures beside it. All of it is there, or what was there before."""

import os
from pathlib import Path

from tutti.backbone.files import Files, make_folders, overwrite
from tutti.report.facts import Facts
from tutti.report.page import page
from tutti.web.charts import chart
from tutti.web.curves import curves

FOLDER = "reports"


def place_of(data_dir: Path, run: str) -> Path:
    """The path of a run's report below its data directory."""
    return data_dir / FOLDER / f"{run.removeprefix('runs/')}.html"


def write(facts: Facts, place: Path, files: Files) -> list[Path]:
    """Write the page to `place`, and beside it an SVG a curve; what was written. Raises OSError."""
    make_folders(files, place.parent)
    written = []
    for series in curves(facts.curve):
        name = series.title.lower().replace(" ", "-")
        if picture := chart(series, ident=name, standalone=True):
            written.append(_put(files, place.with_name(f"{place.stem}.{name}.svg"), picture))
    return [_put(files, place, page(facts)), *written]


def _put(files: Files, place: Path, text: str) -> Path:
    part = place.with_name(f".{place.name}.{os.getpid()}.part")  # another process may write the same
    overwrite(files, part, place, [text.encode()])
    return place
