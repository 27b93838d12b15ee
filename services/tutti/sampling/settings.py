"""Settings of sampling, in `[sampling]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class SamplingSettings(Section):
    experience_iterations: int = Field(
        default=100, ge=0, description="number of newest iterations of a job whose rollouts are kept; 0: all"
    )
