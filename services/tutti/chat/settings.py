"""Settings of chat, in `[chat]` of tutti.toml."""

from typing import Literal

from pydantic import Field

from tutti.chassis.config.sections import Section


class ChatSettings(Section):
    memory_bytes: int = Field(
        default=0,
        ge=0,
        description="bytes of memory that the models of all deployments may take; a deployment that needs more is "
        "refused; 0: all that the machine, or the limit of its container, has available",
    )
    mode: Literal["exact", "fast"] = Field(
        default="exact",
        description="exact: answers have the bits of training, on every replica; fast: they take less time, and their "
        "bits depend on the other answers",
    )
