"""Settings of access."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class AccessSettings(Section):
    idle_hours: float = Field(default=12.0, gt=0, description="idle time after which a session ends")
    annotator_idle_days: float = Field(
        default=7.0, gt=0, description="idle time after which a session of a user who is only an annotator ends"
    )
    session_days: float = Field(default=30.0, gt=0, description="maximum lifetime of a session")
    rotate_minutes: float = Field(default=10.0, gt=0, description="age at which a session token is replaced")
    link_minutes: float = Field(default=10.0, gt=0, description="lifetime of a login link of an active user")
    annotator_link_hours: float = Field(
        default=24.0, gt=0, description="lifetime of a login link of an active user who is only an annotator"
    )
    invitation_days: float = Field(default=7.0, gt=0, description="lifetime of the first login link of a user")
    agent_blobs: str = Field(
        default="", description="URL of the blob store, with one key for all machines that join; empty: none"
    )
    failed_logins: int = Field(default=10, gt=0, description="failed logins of one address before it has to wait")
    failed_logins_per_minute: float = Field(
        default=6.0, gt=0, description="failed logins per minute of one address in the long run"
    )
    answers_per_minute: int = Field(
        default=600, gt=0, le=10**6, description="answers of models that one token may ask for in a minute"
    )
    answer_tokens_per_minute: int = Field(
        default=500_000, gt=0, le=10**9, description="tokens of prompts and answers that one token may use in a minute"
    )
    concurrent_answers: int = Field(
        default=128,
        gt=0,
        le=10**4,
        description="answers of one token at the same time; each choice of a request is one",
    )
