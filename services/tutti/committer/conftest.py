"""A committer over real stores, and the folder of a model, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.committer.rehearsal_test import Rehearsal
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.inference.foreign.folder_test import QWEN_3, write
from tutti.inference.foreign.texts import TOKENIZER

CONFIGURATION = QWEN_3 | {"vocab_size": 260, "eos_token_id": [256, 257]}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rehearsal]:
    found = Rehearsal(tmp_path)
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write(tmp_path / "model", CONFIGURATION)
    (made / TOKENIZER).write_bytes(of_bytes("<|user|>").artefact)
    (made / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return made
