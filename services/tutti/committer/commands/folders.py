"""A command for models in folders of Hugging Face."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import output_option, print_one
from tutti.client.plain import Plain

if TYPE_CHECKING:
    from tutti.inference.foreign.folder import Foreign


@click.command("inspect", short_help="Read a model's folder of Hugging Face, and show what it is.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option
def inspect(folder: Path, output: str) -> None:
    """Read every weight of a Llama, Mistral, Qwen2 or Qwen3 model in FOLDER, and show what the model is.

    \b
    tutti checkpoints inspect ./Qwen3-0.6B -o json

    The files are config.json, tokenizer.json, and model.safetensors or its index with all its files. `model` has the
    keys with which a recipe describes a model of this shape. A tokenizer is lossless if decoding gives every text back.
    No platform is needed, and nothing is stored. The exit code is 2 if the model would compute something else here than
    in transformers: the error names the file and the key.
    """
    # It brings numpy, for which few other commands wait.
    from tutti.inference.foreign.errors import NotImportable
    from tutti.inference.foreign.folder import opened

    try:
        with opened(folder) as foreign:
            print_one(shown(foreign), output)
    except (NotImportable, OSError) as error:
        raise Failure(f"{folder}: {error}", MISUSE) from error


def shown(foreign: "Foreign") -> Plain:
    """The facts about a folder. Raises NotImportable."""
    from tutti.inference.foreign.texts import texts_of
    from tutti.model.parameter import keys_of

    layout = foreign.layout
    model = layout.model
    scaled = {"rope_scaling": keys_of(model.rope_scaling)} if model.rope_scaling else {}
    texts = texts_of(foreign.texts, model.vocabulary)
    return {
        "model_digest": foreign.weights.digest(),
        "folder_digest": foreign.digest,
        "licence": foreign.licence,
        "tokenizer": texts.tokenizer,
        "tokenizer_ids": texts.ids,
        "lossless": texts.lossless,
        "end_ids": list(texts.ends),
        "begin_id": texts.begin,
        "padding_id": texts.padding,
        "template": texts.template,
        "parameters": layout.parameters,
        "dtype": foreign.weights.dtype,
        "vocabulary": model.vocabulary,
        "context": model.context,
        "model": keys_of(model) | scaled,
    }
