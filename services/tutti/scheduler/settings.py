"""The scheduler's numbers."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class SchedulerSettings(Section):
    node_ttl_seconds: float = Field(default=15.0, gt=0, description="silence after which a node is lost")
    staging_seconds: float = Field(default=600.0, gt=0, description="for data to be staged and all ranks spawned")
    rendezvous_seconds: float = Field(
        default=60.0, gt=0, description="after all are spawned, until ranks that have not met are named"
    )
    release_seconds: float = Field(default=60.0, gt=0, description="until a job goes on without a node's slots")
    commit_seconds: float = Field(default=600.0, gt=0, description="for the last checkpoint to be committed")
    commit_look_seconds: float = Field(default=2.0, gt=0, description="between looks at the last checkpoint")
    progress_seconds: float = Field(default=1.0, ge=0, description="at least so long between two progress events")
    attempts: int = Field(default=5, gt=0, description="attempts without progress, where a job does not say")
