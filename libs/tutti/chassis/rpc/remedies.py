"""Remedies for agents that are missing, in the words of the doctor, of `tutti status` and of the page `/status`."""

START_AGENT = (
    "start an agent: `tutti up` starts one with the platform, `python -P -m tutti.trainer` one on another machine"
)


def lost(node: str, reason: str) -> str:
    """The problem of a node that is lost, with its remedy."""
    return f"{node} is lost ({reason}): start its agent again"


def waiting(jobs: int) -> str:
    """Such as 2 jobs wait."""
    return f"{jobs} {'job waits' if jobs == 1 else 'jobs wait'}"
