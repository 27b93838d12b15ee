"""A staged checkpoint written for others to read, in a process of the pool."""

from collections.abc import Mapping
from pathlib import Path

from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.staged import open_staged
from tutti.corpus.conversations.rendered import TemplateError
from tutti.corpus.conversations.renderers import template_of
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.parameters import parameters_of

LOGIC_VERSION = "export-2"


def export(folder: Path, tokenizer: BytePairTokenizer, to: Path, dtype: str, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files of the Hugging Face format into the new folder `to`; their paths, by name.

    `files` are those that came in with an import. Raises WorkFailed when the checkpoint is damaged, or is a reward
    model.
    """
    from tutti.inference.huggingface import Exported, NotExportable, write  # brings safetensors

    try:
        staged = open_staged(folder)
        digest = "" if isinstance(staged.body, ImportBody) else staged.body.template
        template = template_of(digest, tokenizer) if digest else None
        write(Exported(staged.body.layout, parameters_of(staged), tokenizer, template, dtype, files), to)
    except (CheckpointError, TemplateError) as error:
        raise WorkFailed(str(error)) from error
    except NotExportable as error:
        raise WorkFailed(f"{staged.body.name} cannot be exported: {error}") from error
    return sorted(to.iterdir())
