"""The scheduler's numbers."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class SchedulerSettings(Section):
    node_ttl_seconds: float = Field(
        default=15.0, gt=0, description="time without a heartbeat after which a node is lost"
    )
    capacity_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="time that a job waits for more agents, if all registered nodes together have fewer slots than it "
        "has ranks; then it fails",
    )
    staging_seconds: float = Field(
        default=600.0, gt=0, description="timeout for staging the data and starting all ranks"
    )
    rendezvous_seconds: float = Field(
        default=60.0,
        gt=0,
        description="timeout of the rendezvous after all ranks have started; missing ranks are named",
    )
    release_seconds: float = Field(
        default=60.0, gt=0, description="timeout for a node to release its slots; then the job continues without them"
    )
    stall_seconds: float = Field(
        default=15.0, gt=0, description="timeout for agents to send the flight records of a job without progress"
    )
    commit_seconds: float = Field(default=600.0, gt=0, description="timeout for the last checkpoint to be committed")
    commit_look_seconds: float = Field(default=2.0, gt=0, description="interval of polling for the last checkpoint")
    progress_seconds: float = Field(default=1.0, ge=0, description="minimum time between two progress events")
    attempts: int = Field(default=5, gt=0, description="attempts without progress, if the job does not set it")
