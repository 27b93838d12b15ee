"""The engines by name; one whose library is not installed is named with the command that installs it.

Does not import torch.
"""

from enum import StrEnum
from importlib import metadata

from tutti.backbone.connect import MissingExtra


class Kind(StrEnum):
    """The engine that generates."""

    SLOTS = "slots"
    """Ours."""
    VLLM = "vllm"


def version_of(kind: Kind) -> str:
    """Return the part of a result's version that names its engine; empty for ours. Raises MissingExtra."""
    if kind is Kind.SLOTS:
        return ""
    try:
        return f"vllm-{metadata.version('vllm')}"
    except metadata.PackageNotFoundError:
        raise MissingExtra("vllm is not installed: pip install 'tutti[vllm]'", name="vllm") from None
