"""Models and tokenizers as transformers reads them from a folder.

It is imported where it is first asked for: that takes seconds, and every worker imports every module of tests.
"""

from pathlib import Path
from typing import Any


def their_model(folder: Path, **how: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, **how)


def their_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)
