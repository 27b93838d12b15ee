"""What an operator may set of sampling, in `[sampling]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class SamplingSettings(Section):
    experience_iterations: int = Field(
        default=100, ge=0, description="iterations of a job whose rollouts are kept, the newest; 0: all"
    )
