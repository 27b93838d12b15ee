"""Folders that Hugging Face's `datasets.load_dataset` reads: the split train as JSON lines, and a dataset card."""

from pathlib import Path

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder

LINES, CARD = "train.jsonl", "README.md"


def write(path: Path, data: bytes, *, title: str, about: str, digest: str) -> None:
    """Create the folder `path`; `data` are its lines, `digest` is that of their content. Raises FileExistsError,
    OSError.
    """
    card = (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {LINES}\n---\n\n"
        f"# {title}\n\n{about}\n\nContent digest: `{digest}`\n"
    )
    with new_folder(RealFiles(), path) as folder:
        (folder / CARD).write_text(card)
        (folder / LINES).write_bytes(data)
