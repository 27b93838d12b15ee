"""The command that imports a model's folder of Hugging Face as a checkpoint."""

from pathlib import Path
from typing import Any

import click

from tutti.cli import waiting
from tutti.cli.access import reached
from tutti.cli.connection import connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.output import output_option, patiently, print_one
from tutti.cli.waiting import cancelling
from tutti.client.plain import Plain
from tutti.contracts.committer.v1 import CreateImportRequest, Import, ImportSpec
from tutti.contracts.common.v1 import STATE_FAILED, GetRequest


@click.command("import", short_help="Import a model's folder of Hugging Face as a checkpoint.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option
@connection_options
def import_folder(folder: Path, output: str, **where: Any) -> None:
    """Make a checkpoint of the Llama, Mistral, Qwen2 or Qwen3 model in FOLDER, with its tokenizer.

    \b
    tutti checkpoints inspect ./Qwen3-0.6B        # shows the model; stores nothing
    tutti checkpoints import ./Qwen3-0.6B
    tutti sample checkpoints/import-DIGEST/0/0 --prompt "The"

    The checkpoint is named by the digest over the files that are read, so the same folder always becomes the same
    checkpoint. It has the parameters alone, as float32. With a chat template of its own it answers (`tutti serve`);
    the stage `sft` begins with it (`initial: checkpoints/...`), and `tutti checkpoints export` writes it, or a tuned
    one, for transformers. An empty licence means that the folder names none.

    The machine of the platform reads the folder. It must be in one of the folders of the setting `committer.roots`;
    without that setting only the holder of the platform's own tokens may name one. The exit code is 2 for a folder that
    is refused: the error names the file and the key.
    """
    with reached(**where) as platform:
        committer = platform.client.committer
        wanted = fresh_id()
        spec = ImportSpec(folder=str(folder.absolute()))
        request = CreateImportRequest(request_id=wanted, name=f"imports/{wanted}", spec=spec)
        name = getattr(committer.CreateImport(request), "import").name
        with cancelling(committer.CancelImport, name), patiently(f"reads {folder}"):
            done = _ended(lambda: committer.GetImport(GetRequest(name=name)), platform.ended, folder)
    print_one(shown(done), output)


def _ended(look: Any, gone: Any, folder: Path) -> Import:
    """Wait until the import is done. Raises Failure, with the exit code of misuse for a folder that is refused."""
    found: Import = next(each for each in waiting.answers(look, gone) if each.state in waiting.ENDED)
    if found.state == STATE_FAILED:
        raise Failure(f"{folder}: {found.reason}", MISUSE)
    return waiting.done(lambda: found, gone)


def shown(done: Import) -> Plain:
    """The checkpoint of an import, its digests, tokenizer, template and licence."""
    return {
        "checkpoint": done.checkpoint,
        "model_digest": done.model_digest,
        "folder_digest": done.folder_digest,
        "tokenizer": done.tokenizer,
        "template": done.template,
        "licence": done.licence,
    }
