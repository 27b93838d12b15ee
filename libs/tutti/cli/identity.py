"""Fresh request ids: a call that is sent twice has one effect."""

from tutti.backbone import SystemClock, SystemRandomness, uuid7


def fresh_id() -> str:
    return uuid7(SystemClock(), SystemRandomness())
