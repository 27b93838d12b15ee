"""Events as sentences."""

from google.protobuf.message import Message

from tutti.chassis.events.sentences import sentence
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING, EpochOpened, Job


def said(message: Message) -> str:
    return sentence("jobs/x", message.DESCRIPTOR.full_name, message)


def test_a_snapshot_says_its_state_and_why_and_a_fact_its_name_and_fields() -> None:
    job = Job(name="jobs/x", state=JOB_STATE_RUNNING, step=1200, reason="waits for the checkpoint")
    assert said(job) == "jobs/x is running at step 1,200: waits for the checkpoint"
    assert said(EpochOpened(job="jobs/x", epoch=2, resume_step=40, cause="rank 0 lost")) == (
        "jobs/x: epoch opened (epoch 2, resume step 40, cause rank 0 lost)"
    )
    assert sentence("jobs/x", "tutti.of.a.NewerVersion", None) == "jobs/x: newer version"
