"""Imports among the stages of a recipe: which checkpoints came of models that others trained.

Pure. An import brings its model and its tokenizer, which the stages that continue it take.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from tutti.checkpoints.keys import import_of
from tutti.pipeline.recipes.instance import Instance
from tutti.pipeline.recipes.sections import TokenizationSection

CHECKPOINTS = "checkpoints/"
IMPORTED = f"{CHECKPOINTS}{import_of('')}"
"""The prefix of the names of imported checkpoints."""
INITIAL = "initial"
"""The role of the checkpoint that a stage begins with."""
TOKENIZER = "tokenizer"
"""The role of the checkpoint whose tokenizer encodes a dataset."""
DATASET, TRAIN, TOKENIZATION, IMPORT = "dataset", "train", "tokenization", "imported"
HUGGINGFACE = "huggingface"

NAME_CHARACTERS = 30
"""The maximum length of the name of a stage that no recipe names, without the number that may follow."""

Stages = Mapping[str, Instance]


def is_of_import(reference: str, stages: Stages) -> bool:
    """True if a checkpoint is an import, or stages of the recipe made it of one."""
    back = list(_back(reference, stages))
    return back[-1].startswith(IMPORTED) or any(stages[name].kind == IMPORT for name in back if name in stages)


def beginning(reference: str, stages: Stages) -> str:
    """The checkpoint of an earlier run, or the stage of the recipe, whose model the checkpoint of a reference has."""
    return list(_back(reference, stages))[-1]


def with_tokenizers(top: Stages, named: Stages) -> dict[str, Instance]:
    """The stages of top-level keys; texts that a training of an import reads have the tokenizer that came with it.

    `tokenizer.of` can name a checkpoint with the tokenizer instead.
    """
    own = top[TOKENIZATION]
    assert isinstance(own.section, TokenizationSection)
    found = [(own.section.of, own.keys.of("of"))] if own.section.of else sorted(_begun(top, named))[:1]
    if not own.asked or not found or (own.section.of and not own.section.of.startswith(CHECKPOINTS)):
        return dict(top)
    ((checkpoint, key),) = found
    keys = replace(own.keys, others={**own.keys.others, f"from.{TOKENIZER}": key})
    return {**top, TOKENIZATION: replace(own, inputs={**own.inputs, TOKENIZER: (checkpoint,)}, keys=keys)}


def with_stages(written: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The stages as they are written, and one for each folder that `{huggingface: FOLDER}` names as an input.

    Also the keys that name the folders, by the names of these stages.
    """
    found, keys, names = dict(written), dict[str, str](), dict[str, str]()
    for name, body in written.items():
        inputs = body.get("from") if isinstance(body, dict) else None
        for role, ref in inputs.items() if isinstance(inputs, dict) else ():
            folder = ref.get(HUGGINGFACE) if isinstance(ref, dict) and len(ref) == 1 else None
            if isinstance(folder, str):
                made = names.setdefault(folder, _free(f"{name}-{role}", found))
                found[made] = {"kind": IMPORT, "path": folder}
                found[name] = {**found[name], "from": {**found[name]["from"], role: made}}
                keys.setdefault(made, f"stages.{name}.from.{role}.{HUGGINGFACE}")
    return found, keys


def _free(name: str, taken: Collection[str]) -> str:
    """A name of a stage that is not taken yet."""
    short = name[:NAME_CHARACTERS].rstrip("-")
    return next(each for n in count() if (each := f"{short}-{n}" if n else short) not in taken)


def _begun(top: Stages, named: Stages) -> Iterator[tuple[str, str]]:
    """The checkpoints of imports that stages train on the recipe's own dataset, and the keys that name them.

    Those that were made of the recipe's own dataset have its tokenizer already.
    """
    for stage in named.values():
        if stage.kind == TRAIN and TOKENIZATION in stage.inputs.get(DATASET, ()):
            for ref in stage.inputs.get(INITIAL, ()):
                if is_of_import(ref, named) and not _reads(ref, named) & top.keys():
                    yield ref, stage.keys.of(f"from.{INITIAL}")


def _back(reference: str, stages: Stages) -> Iterator[str]:
    """A checkpoint, the one that it begins with, and so on."""
    seen = set[str]()
    while reference and reference not in seen:
        seen.add(reference)
        yield reference
        reference = next(iter(stages[reference].inputs.get(INITIAL, ())), "") if reference in stages else ""


def _reads(reference: str, stages: Stages) -> set[str]:
    """Everything that a stage goes back to, itself among it."""
    found, new = set[str](), [reference]
    while new:
        name = new.pop()
        if name not in found:
            found.add(name)
            new += stages[name].references if name in stages else ()
    return found
