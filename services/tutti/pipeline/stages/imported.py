"""The stage `imported`: makes a checkpoint of a model's folder of Hugging Face.

A role that takes a checkpoint has it without a name, as `{huggingface: FOLDER}`.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.checkpoints.bodies import decode_body
from tutti.contracts.committer.v1 import Checkpoint, Import, ImportSpec
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Folder, StageContext, StageDef
from tutti.pipeline.recipes.view import View


class ImportedSection(Part):
    path: str = Field(
        min_length=1, max_length=4096, description="folder with the model, relative to the folder of the recipe"
    )


class ImportedStage(StageDef):
    name = "imported"
    work = Import
    makes = Checkpoint
    section = ImportedSection
    # The folder decides alone: its digest names the checkpoint.
    version = "import-1"

    def folder(self, view: View) -> Folder | None:
        return Folder("path", view.section(ImportedSection).path, model=True)

    def request(self, asked: StageContext) -> ImportSpec:
        assert asked.source is not None
        return ImportSpec(folder=asked.source.path)

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return {}

    def objection(self, view: View, work: Any) -> str:
        """The recipe is recorded with the digest of the folder that was checked."""
        checked = view.section(ImportedSection).path
        if work.folder_digest == checked:
            return ""
        return f"the folder has changed: it was {checked}, and {work.folder_digest} was imported; run the recipe again"

    def listed(self, data: bytes, *, thorough: bool) -> tuple[str, list[Checked]]:
        body = decode_body(data)
        return body.identity, [
            Expected(blob.key, blob.nbytes, blob.bytes_digest if thorough else "") for blob in body.blobs
        ]

    def unforeseeable(self, view: View) -> str:
        return "it follows from the size of the model"

    def summary(self, work: Any) -> str:
        return f"{work.checkpoint}, licence {work.licence or 'not named'}"


STAGE = ImportedStage()
