"""The committer's own settings."""

from pydantic import BaseModel, ConfigDict, Field


class CommitterSettings(BaseModel):
    """Seconds: of a claim on a verification; until the committer reads a shard itself; until pruned bytes, late shards
    that make no whole state, and what sealed epochs left undecided, go; after the last report or opening, until the
    store is no longer searched for a job's untold reports.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim_seconds: float = Field(default=60.0, gt=0)
    patience_seconds: float = Field(default=30.0, ge=0)
    grace_seconds: float = Field(default=600.0, ge=0)
    adopt_seconds: float = Field(default=3600.0, gt=0)
