"""Preferences written for others to read: `tutti preferences export`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles, publish
from tutti.cli.access import served
from tutti.cli.connection import connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.naming import resolved
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import output_option, print_one, say
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.contracts.annotation.v1 import ReadPreferencesRequest
from tutti.contracts.common.v1 import GetRequest
from tutti.corpus.conversations import Preference, from_lines, to_lines

JSONL, TRL = "jsonl", "trl"


def extend(group: click.Group) -> None:
    """Add the export to the group `preferences`."""

    @group.command("export", short_help="Write preferences as JSON lines for other tools.")
    @click.argument("name")
    @click.option("--format", "wanted", type=click.Choice([JSONL, TRL]), default=JSONL, show_default=True)
    @click.option(
        "--margin", type=FiniteRange(0, 0.5, max_open=True), default=0.05, show_default=True,
        help="Distance from one half up to which a pair is a tie in `trl`.",
    )  # fmt: skip
    @click.option("--to", "path", type=click.Path(path_type=Path), required=True, help="File to create.")
    @output_option
    @connection_options
    def export(name: str, wanted: str, margin: float, path: Path, output: str, **where: Any) -> None:
        """Write preferences NAME to a file of JSON lines.

        jsonl has `prompt`, `answers`, `first` (the probability that the first answer is the better one), `weight`
        and `judged` (the share of judgements that preferred the first answer).
        trl has `prompt`, `chosen` and `rejected`, each a list of messages, as datasets.load_dataset("json", …) and TRL
        read them; ties are left out and counted: pairs of which the first answer is better with a probability within
        --margin of one half.

        \b
        tutti preferences export x --format trl --to preferences.jsonl
        """
        if path.exists():
            raise Failure(f"{path} exists: choose another file", MISUSE)
        with served(**where) as client:
            full = resolved(client, "preferences", name)
            _say_outdated(client, full)
            found = list(from_lines(Preference, b"".join(_read(client, full))))
        kept = found if wanted == JSONL else [each for each in found if abs(each.first - 0.5) > margin]
        data = to_lines(kept) if wanted == JSONL else "".join(map(_trl, kept)).encode()
        with written_to(path, "--to"):
            publish(RealFiles(), path.with_name(f".{path.name}.partial"), path, [data])
        written = {"preferences": full, "format": wanted, "file": str(path)}
        print_one({**written, "pairs": len(kept), "ties": len(found) - len(kept)}, output)
        if not kept:
            say(f"{path} is empty: every pair is within {margin} of a tie; --margin sets the distance")


def _say_outdated(client: Client, name: str) -> None:
    """Tell of campaigns whose judgements were published anew after they were fitted, without a retracted annotator."""
    spec = client.annotation.GetPreferences(GetRequest(name=name)).spec
    digests = {spec.campaign: spec.content_digest} | {each.campaign: each.content_digest for each in spec.others}
    for judged, digest in digests.items():
        campaign = client.annotation.GetCampaign(GetRequest(name=judged))
        if campaign.result.content_digest != digest:
            reason = f" ({campaign.reason})" if campaign.reason else ""
            say(f"{campaign.name} has other judgements since {name} was fitted{reason}: `tutti run` fits them anew")


def _read(client: Client, name: str) -> Iterator[bytes]:
    offset = 0
    while data := client.annotation.ReadPreferences(ReadPreferencesRequest(name=name, offset=offset)).data:
        offset += len(data)
        yield data


def _trl(preference: Preference) -> str:
    """A line in the conversational format of TRL's preference datasets."""
    better = 0 if preference.first > 0.5 else 1
    chosen, rejected = preference.answers[better], preference.answers[1 - better]
    line = {
        "prompt": [each.to_json() for each in preference.prompt],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
