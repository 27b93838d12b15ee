"""Settings of access."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class AccessSettings(Section):
    idle_hours: float = Field(default=12.0, gt=0, description="a session that is not used for so long ends")
    session_days: float = Field(default=30.0, gt=0, description="a session ends after so long, used or not")
    rotate_minutes: float = Field(default=10.0, gt=0, description="a session token is replaced when it is older")
    link_minutes: float = Field(default=10.0, gt=0, description="a login link of an active user is valid for so long")
    invitation_days: float = Field(default=7.0, gt=0, description="the first link of a user is valid for so long")
    failed_logins: int = Field(default=10, gt=0, description="failures of one address before it has to wait")
    failed_logins_per_minute: float = Field(default=6.0, gt=0, description="failures of one address in the long run")
