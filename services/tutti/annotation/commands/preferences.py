"""Preferences written for others to read: `tutti preferences export`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.annotation.commands import datasetfolders
from tutti.backbone.files import RealFiles, publish
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.naming import resolved
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import output_option, print_one, say
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.contracts.annotation.v1 import Preferences, ReadPreferencesRequest
from tutti.contracts.common.v1 import GetRequest
from tutti.corpus.conversations.conversations import Preference, from_lines, to_lines

JSONL, TRL, HF = "jsonl", "trl", "hf"


def extend(group: click.Group) -> None:
    """Add the export to the group `preferences`."""

    @group.command("export", short_help="Write preferences for other tools.")
    @click.argument("name")
    @click.option("--format", "wanted", type=click.Choice([JSONL, TRL, HF]), default=JSONL, show_default=True)
    @click.option(
        "--margin", type=FiniteRange(0, 0.5, max_open=True), default=0.05, show_default=True,
        help="Distance from one half up to which a pair is a tie in `trl` and `hf`.",
    )  # fmt: skip
    @click.option(
        "--to", "path", type=click.Path(path_type=Path), required=True, help="File, or folder for hf, to create."
    )
    @output_option
    @connection_options
    def export(name: str, wanted: str, margin: float, path: Path, output: str, **where: Any) -> None:
        """Write preferences NAME.

        jsonl is a file of JSON lines with `prompt`, `answers`, `first` (the probability that the first answer is the
        better one), `weight` and `judged` (the share of judgements that preferred the first answer, by their weights).
        trl has lines with `prompt`, `chosen` and `rejected`, each a list of messages, as TRL's DPOTrainer and
        RewardTrainer read them; ties are left out and counted: pairs of which the first answer is better with a
        probability within --margin of one half. hf is a folder with the lines of trl in `train.jsonl`, and a dataset
        card, which datasets.load_dataset reads and which can be uploaded to Hugging Face.

        \b
        tutti preferences export x --format trl --to preferences.jsonl
        tutti preferences export x --format hf --to preferences
        """
        if path.exists():
            raise Failure(f"{path} exists: choose another {'folder' if wanted == HF else 'file'}", MISUSE)
        with connected(**where) as client:
            full = resolved(client, "preferences", name)
            made = client.annotation.GetPreferences(GetRequest(name=full))
            _say_outdated(client, made)
            found = list(from_lines(Preference, b"".join(_read(client, full))))
        kept = found if wanted == JSONL else [each for each in found if abs(each.first - 0.5) > margin]
        data = to_lines(kept) if wanted == JSONL else "".join(map(_trl, kept)).encode()
        with written_to(path, "--to"):
            if wanted == HF:
                about = _about(made, pairs=len(kept), ties=len(found) - len(kept), margin=margin)
                datasetfolders.write(path, data, title=full, about=about, digest=made.result.content_digest)
            else:
                publish(RealFiles(), path.with_name(f".{path.name}.partial"), path, [data])
        written = {"preferences": full, "format": wanted, "file": str(path)}
        print_one({**written, "pairs": len(kept), "ties": len(found) - len(kept)}, output)
        if not kept:
            say(f"{path} is empty: every pair is within {margin} of a tie; --margin sets the distance")


def _say_outdated(client: Client, made: Preferences) -> None:
    """Tell of campaigns whose judgements were published anew after they were fitted, without a retracted annotator."""
    name, spec = made.name, made.spec
    digests = {spec.campaign: spec.content_digest} | {each.campaign: each.content_digest for each in spec.others}
    for judged, digest in digests.items():
        campaign = client.annotation.GetCampaign(GetRequest(name=judged))
        if campaign.result.content_digest != digest:
            reason = f" ({campaign.reason})" if campaign.reason else ""
            say(f"{campaign.name} has other judgements since {name} was fitted{reason}: `tutti run` fits them anew")


def _about(preferences: Preferences, *, pairs: int, ties: int, margin: float) -> str:
    """The text of a dataset card."""
    judges = "simulated annotators" if preferences.simulated else "annotators"
    return (
        f"{pairs} pairs of answers (`prompt`, `chosen` and `rejected`, each a list of messages with `role` and "
        f"`content`), from {preferences.judgements} judgements by {preferences.annotators} {judges}. {ties} ties are "
        f"left out: pairs of which an answer is better with a probability within {margin:g} of one half. The answers "
        f"were not checked for personal data or harmful contents when they were exported."
    )


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
