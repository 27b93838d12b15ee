"""`tutti campaigns export`: every judgement of a campaign as it came."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles, publish
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.naming import resolved
from tutti.cli.output import output_option, print_one
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.contracts.annotation.v1 import ReadJudgementsRequest


def extend(group: click.Group) -> None:
    """Add the export to the group `campaigns`."""

    @group.command("export", short_help="Write every judgement of a campaign to a file.")
    @click.argument("campaign")
    @click.option("--to", "path", type=click.Path(path_type=Path), required=True, help="File to create.")
    @output_option
    @connection_options
    def export(campaign: str, path: Path, output: str, **where: Any) -> None:
        """Write the judgements of CAMPAIGN as JSON lines, in order of arrival.

        Each line has the annotator, the scores of every axis (-2: the first of `answers` is much better, 2: the second
        is), the comment, the better answer that was written, the reason of a skip or a flag, the time of arrival, the
        pair with its prompt and answers, and whether it is a control (`pair_kind`). A judgement that was undone has
        `current` false. Judgements of retracted annotators are left out.

        \b
        tutti campaigns export trial --to trial.jsonl
        """
        if path.exists():
            raise Failure(f"{path} exists: choose another file", MISUSE)
        written = 0

        def lines(client: Client, name: str) -> Iterator[bytes]:
            nonlocal written
            token = ""
            while True:
                page = client.annotation.ReadJudgements(ReadJudgementsRequest(campaign=name, page_token=token))
                written += len(page.lines)
                yield "".join(f"{line}\n" for line in page.lines).encode()
                if not (token := page.next_page_token):
                    return

        with connected(**where) as client:
            name = resolved(client, "campaigns", campaign)
            with written_to(path, "--to"):
                publish(RealFiles(), path.with_name(f".{path.name}.partial"), path, lines(client, name))
        print_one({"campaign": name, "file": str(path), "judgements": written}, output)
