"""`tutti report`: the page of a run, now or again."""

from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles
from tutti.backbone.ours import OwnFiles
from tutti.cli import interrupt
from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.contracts.common.v1 import GetRequest
from tutti.report.facts import Facts, gather
from tutti.report.writing import place_of, write


@click.command("report", short_help="Write the report of a run as one HTML page.")
@click.argument("run", default="")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Write the page here.")
@output_option
@connection_options
def report(run: str, out: Path | None, output: str, data_dir: Path, **where: Any) -> None:
    """Write the report of RUN (default: the newest run): one self-contained HTML file.

    \b
    tutti report
    tutti report runs/0f5c2d3e4a5b-1 --out first.html

    It is written to reports/ID.html in the data directory, unless --out names a file. Its curves are written beside it
    as SVG: ID.loss.svg, ID.gradient-norm.svg, ID.learning-rate.svg.
    """
    with connected(data_dir=data_dir, **where) as client:
        name = resolved(client, "runs", run)
        facts = whole(client, name)
    place = out or place_of(data_dir, name)
    with written_to(place, "--out"):
        written = write(facts, place, RealFiles() if out else OwnFiles())
    if output == JSON:
        print_json({"run": name, "files": [str(each) for each in written]})
    else:
        click.echo(written[0])
        for each in written[1:]:
            say(f"beside it: {each.name}")


def whole(client: Client, run: str) -> Facts:
    """Return everything that the platform knows of a run; Ctrl-C ends the wait for it. Raises Problem."""
    return gather(client, client.pipeline.GetRun(GetRequest(name=run)), warn=say, check=interrupt.check)
