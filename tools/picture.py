"""Take the picture of a report that README shows: python -m tools.picture .tutti/reports/ID.html

It needs a Chromium, as the tests of pages do.
"""

import argparse
import sys
from pathlib import Path

from tests.browser.chromium import chromium

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "report.png"
WIDTH, HEIGHT = 1000, 1240
SHOWN = ("training",)  # sections behind the top


def take(report: Path, to: Path = PICTURE) -> None:
    """Write the top of a report and its curves as a PNG."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", bypass_csp=True)
        page.goto(report.resolve().as_uri())
        hidden = "".join(f":not(#{each})" for each in SHOWN)
        page.add_style_tag(content=f"section{hidden} {{ display: none }}")
        page.screenshot(path=to)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.picture", description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="the report of a run of `make run`")
    report = parser.parse_args().report
    if not report.is_file():
        sys.exit(f"{report}: no such file; `make run` writes one below .tutti/reports")
    take(report)
    print(PICTURE.relative_to(Path.cwd()) if PICTURE.is_relative_to(Path.cwd()) else PICTURE)


if __name__ == "__main__":
    main()
