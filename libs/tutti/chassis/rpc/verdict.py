"""The verdict of the doctor: what its findings come to, in one sentence."""

from collections.abc import Sequence

from tutti.contracts.admin.v1 import DoctorResponse


def examined(findings: Sequence[DoctorResponse.Finding]) -> DoctorResponse:
    """Return findings with their verdict."""
    bad = [each for each in findings if not each.ok]
    return DoctorResponse(findings=findings, ok=not bad, verdict=_sentence(bad, len(findings)))


def _sentence(bad: Sequence[DoctorResponse.Finding], looked: int) -> str:
    if not bad:
        return f"all is well: {looked} checks"
    first = f"{bad[0].service}: {bad[0].check}: {bad[0].message}"
    if len(bad) == 1:
        return f"1 of {looked} checks needs attention: {first}"
    return f"{len(bad)} of {looked} checks need attention, the first one: {first}"
