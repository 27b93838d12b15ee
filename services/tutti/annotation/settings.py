"""Settings of annotation."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class AnnotationSettings(Section):
    """Campaigns."""

    lease_minutes: float = Field(default=30.0, gt=0, description="until a pair that nobody judged is given to another")
    leases_per_minute: float = Field(default=120.0, gt=0, description="requests for pairs of each annotator")
    judgements_per_minute: float = Field(default=240.0, gt=0, description="deliveries of judgements of each annotator")
    look_seconds: float = Field(default=2.0, gt=0, description="how often judgements of a campaign are counted")
