"""Spikes of a training: their texts, and the job that goes back before one. Pure."""

from tutti.chassis.errors import InvalidField
from tutti.contracts.scheduler.v1 import Job, Spike
from tutti.model.spec import SpecError
from tutti.model.spikes import REWIND
from tutti.model.training import Training
from tutti.scheduler import jobs
from tutti.scheduler.trainings import respecified


def words(spike: Spike) -> str:
    """The text of a spike."""
    done = f"{spike.skipped} skipped" if spike.skipped else "none skipped"
    return (
        f"a spike in {steps(spike)} ({done}): loss up to {spike.loss:.3g} times the median before, gradient norm up "
        f"to {spike.gradient_norm:.3g} times"
    )


def steps(spike: Spike) -> str:
    """The steps of a spike, such as `steps 3 to 5`."""
    return f"step {spike.first}" if spike.first == spike.last else f"steps {spike.first} to {spike.last}"


def too_early(job: Job, spike: Spike) -> str:
    """The reason why a job cannot go back before a spike: it began before the job did; "" if it can."""
    begun = job.continues
    if spike.first > begun.step:
        return ""
    earlier, skip = begun.job.removeprefix("jobs/"), f"{spike.first}..{spike.last}"
    return (
        f"a spike began in step {spike.first}, before the checkpoint of step {begun.step} of {begun.job} that this job "
        f"starts from; go back further with `tutti jobs rewind {earlier} --to {spike.first - 1} --skip {skip}`"
    )


def gone_back(job: Job, spike: Spike) -> Job:
    """The next attempt resumes before a spike, and leaves out its data.

    Raises InvalidField where the training has no such steps, or does not go back before spikes.
    """
    training, seen = Training.from_json(job.spec.training), f"{spike.first} to {spike.last}"
    if training.spikes != REWIND or spike.last > training.steps:
        expected = f"steps up to {training.steps} of a training with spikes={REWIND}; this one has {training.spikes}"
        raise InvalidField("spike", seen=seen, expected=expected)
    try:
        spec = respecified(job.spec, training.without(spike.first, spike.last))
    except SpecError as error:
        raise InvalidField("spike", seen=seen, expected=str(error)) from error
    after = jobs.doubted(job, spike.first - 1)
    after.spec.CopyFrom(spec)
    return after
