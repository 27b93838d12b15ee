"""Settings of annotation."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class AnnotationSettings(Section):
    """Campaigns."""

    lease_minutes: float = Field(
        default=30.0, gt=0, description="time after which an unjudged pair is given to another annotator"
    )
    leases_per_minute: float = Field(
        default=120.0, gt=0, description="maximum number of requests for pairs per annotator and minute"
    )
    judgements_per_minute: float = Field(
        default=240.0, gt=0, description="maximum number of submissions per annotator and minute"
    )
    undo_seconds: float = Field(
        default=60.0,
        ge=0,
        description="time that a campaign of people stays open after its last judgement, so that it can be undone",
    )
    look_seconds: float = Field(default=2.0, gt=0, description="interval of counting the judgements of a campaign")
