"""Checkpoints that stages begin with: their models and their tokenizers, as in their manifests.

Promises: nothing is kept here.
"""

from typing import Any

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.service import Host
from tutti.checkpoints.bodies import decode_body
from tutti.checkpoints.keys import checkpoint_of
from tutti.pipeline.definitions.tokenized import dataset_row
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.values import Result
from tutti.pipeline.recipes.view import View
from tutti.records.errors import CorpusError


def begun_of(view: View, role: str, checkpoint: Result, host: Host) -> Begun:
    """Return model and tokenizer of the checkpoint of a role. Raises InvalidField."""
    try:
        return Begun.of(decode_body(host.blobs.get(checkpoint.manifest_key)))
    except (BlobMissing, CorpusError) as error:
        seen = checkpoint_of(checkpoint.manifest_key)
        expected = f"a checkpoint that is there: {error}"
        raise view.refused(f"from.{role}", seen=seen, expected=expected) from error


def tokenizer_of(begun: Begun, host: Host) -> str:
    """The version of the tokenizer of a checkpoint, or of the dataset that it was trained on; "" if it is not known."""
    if begun.tokenizer:
        return begun.tokenizer
    row: Any = dataset_row(host, Result("", "", begun.dataset))
    return f"blake3:{row.tokenizer.removeprefix('tokenizers/')}" if row is not None else ""
