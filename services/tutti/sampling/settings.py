"""Settings of sampling, in `[sampling]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class SamplingSettings(Section):
    experience_iterations: int = Field(
        default=100, ge=0, description="number of newest iterations of a job whose rollouts are kept; 0: all"
    )
    model_bytes: int = Field(
        default=2 << 30,
        ge=0,
        description="bytes of parameters that are kept in memory between samples; models that were used longest ago "
        "are dropped first; 0: load the model for each sample",
    )
