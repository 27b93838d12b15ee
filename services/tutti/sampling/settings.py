"""Settings of sampling, in `[sampling]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.sections import Section
from tutti.inference.engines import Kind


class SamplingSettings(Section):
    engine: Kind = Field(
        default=Kind.SLOTS,
        description="engine that answers sets of prompts: slots, which is ours, or vllm, which needs the extra vllm; "
        "part of the identity of a sample",
    )
    experience_iterations: int = Field(
        default=100, ge=0, description="number of newest iterations of a job whose rollouts are kept; 0: all"
    )
    model_bytes: int = Field(
        default=2 << 30,
        ge=0,
        description="bytes of parameters that are kept in memory between samples; models that were used longest ago "
        "are dropped first; 0: load the model for each sample",
    )
    memory_bytes: int = Field(
        default=0,
        ge=0,
        description="bytes of memory that a sample may take beside the models that are kept; one that needs more is "
        "refused; 0: all that the machine, or the limit of its container, has available",
    )
