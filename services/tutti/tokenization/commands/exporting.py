"""A dataset written for others to read: `tutti datasets export`."""

from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder
from tutti.cli.access import reached
from tutti.cli.connection import connection_options
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, print_one
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.client.plain import Plain
from tutti.contracts.tokenization.v1 import ListDatasetFilesRequest, ListDatasetFilesResponse

ENDINGS = {"webdataset": ".tar", "hf-datasets": ".parquet"}
MEGABYTE = 10**6
FILE_MEGABYTES = 268
READ = ("documents", "decisions", "duplicates", "cuts", "validation")
WORDS = {
    "text_bytes": "bytes of text",
    "reads_bytes": "bytes to read",
    "train": "documents to train on",
    "validation": "documents held out",
}


def extend(group: click.Group) -> None:
    """Add the export to the group `datasets`."""

    @group.command("export", short_help="Export the texts of a dataset.")
    @click.argument("name")
    @click.option("--format", "wanted", type=click.Choice(list(ENDINGS)), default="webdataset", show_default=True)
    @click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="Folder to create.")
    @click.option(
        "--file-megabytes", type=click.IntRange(1, 100_000), default=FILE_MEGABYTES, show_default=True,
        help="Maximum bytes of text per file; a longer text gets its own file.",
    )  # fmt: skip
    @click.option("--dry-run", is_flag=True, help="Show what would be written.")
    @output_option
    @connection_options
    def export(
        name: str, wanted: str, folder: Path, file_megabytes: int, dry_run: bool, output: str, **where: Any
    ) -> None:
        """Export the texts of a dataset, as they were tokenized. NAME is datasets/… or runs/….

        \b
        tutti datasets export runs/0f5c2d3e4a5b-1 --to texts
        tutti datasets export datasets/7482984d --format hf-datasets --to texts

        webdataset: tar files of DOCUMENT.txt and DOCUMENT.json, such as train-00000.tar; hf-datasets: Parquet files and
        a card, for datasets.load_dataset("texts"). Both have the splits train and validation. The same dataset gives
        the same bytes. The folder appears only when it is complete; the export needs additional space for one shard of
        documents.
        """
        file_bytes = file_megabytes * MEGABYTE
        found: Plain = {"dataset": "", "format": wanted, "folder": str(folder)}
        if dry_run:
            with reached(**where) as platform:
                dataset, listed = known(platform.client, name)
                found |= {"dataset": dataset, **planned(listed, file_bytes, ENDINGS[wanted])}
        else:
            from tutti.tokenization.commands.writing import written  # no other command waits for it

            with (
                written_to(folder, "--to"),
                new_folder(RealFiles(), folder.absolute()) as made,
                reached(**where) as platform,
            ):
                dataset, listed = known(platform.client, name)
                splits = written(platform.client, dataset, listed, made, wanted, file_bytes)
                found |= {"dataset": dataset, "splits": splits}
        if output == JSON:
            print_json(found)
        else:
            print_one({WORDS.get(key, key): value for key, value in found.items()}, output)


def known(client: Client, name: str) -> tuple[str, ListDatasetFilesResponse]:
    """A dataset, and what it was made of. Raises Failure, NotFound, Refused."""
    dataset = resolved(client, "datasets", name)
    return dataset, client.tokenization.ListDatasetFiles(ListDatasetFilesRequest(name=dataset))


def planned(listed: ListDatasetFilesResponse, file_bytes: int, ending: str) -> Plain:
    """A preview of the export, as far as it is known before."""
    return {
        "train": listed.documents,
        "validation": listed.validation_documents,
        "text_bytes": listed.text_bytes,
        "files": f"about {2 + listed.text_bytes // file_bytes} of {ending}",
        "reads_bytes": sum(each.bytes for each in listed.files if each.holds in READ),
    }
