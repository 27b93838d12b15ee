"""Releases: a checkpoint that passed the rules of a gate, signed, for as long as its evidence holds.

Promises: a release follows from the comparisons and the rules; a refused one says which rule, what was seen and the
limit; one whose evidence changed becomes stale without being asked about.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from tutti.chassis import version
from tutti.chassis.errors import InvalidField, NotFound, Refused, declare
from tutti.chassis.identity import signatures
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.reconciler import Reconciler, Trouble
from tutti.chassis.work.work import Outcome, Work, publish
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_REFUSED,
    STANDING_REVOKED,
    STANDING_STALE,
    Comparison,
    Evidence,
    GetSigningKeyRequest,
    Release,
    ReleasedComparison,
    ReleaseFinding,
    ReleaseRevoked,
    ReleaseSpec,
    RevokeReleaseRequest,
    SigningKey,
    Standing,
)
from tutti.evaluation import evidence, rules
from tutti.evaluation.evidence import Find, Item
from tutti.evaluation.reliance import Relied
from tutti.evaluation.signing import SigningKeys
from tutti.evaluation.tries import Tries, Try
from tutti.records.canonical import JsonValue, canonical_json
from tutti.records.manifest import Kind, Manifest

LOGIC_VERSION = "release-2"
MOST_COMPARISONS = 16
LOOK_SECONDS = 300.0
"""Between two looks at evidence of which no event told."""
declare({"NOT_RELEASED": "only a release that passed can be revoked; see its standing"})


def limits(spec: ReleaseSpec) -> dict[str, float]:
    """The limit of each rule that is applied."""
    return {field.name: value for field, value in spec.ListFields() if field.name in rules.NAMES}


def check(spec: ReleaseSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if not 1 <= len(spec.comparisons) <= MOST_COMPARISONS:
        expected = f"1 to {MOST_COMPARISONS} comparisons"
        raise InvalidField("spec.comparisons", seen=f"{len(spec.comparisons)} comparisons", expected=expected)
    for each in spec.comparisons:
        if not each.name.startswith("comparisons/"):
            raise InvalidField("spec.comparisons.name", seen=each.name or "nothing", expected="comparisons/…")
    found = limits(spec)
    if not found:
        raise InvalidField("spec", seen="no rule", expected=f"a limit for one of {', '.join(rules.NAMES)}")
    for name, most in ((rules.WIN, 1.0), (rules.GAP, 1.0), (rules.KL, float("inf"))):
        if name in found and not (0 <= found[name] <= most and found[name] != float("inf")):
            expected = "0 to 1" if most == 1 else "0 or more"
            raise InvalidField(f"spec.{name}", seen=found[name], expected=expected)


class Releases:
    """The work, the calls and the loop of releases; `find` asks owners for resources."""

    def __init__(self, host: Host, find: Find, relied: Relied) -> None:
        self._host, self._find, self._relied = host, find, relied
        self.keys = SigningKeys(host.metadata, host.randomness)
        self.tries = Tries(host.metadata)
        self.work: Work[Release] = Work(
            host, "releases", Release, self._run, LOGIC_VERSION, {"standing": lambda each: int(each.standing)}
        )
        self.resource = self.work.resource
        self.reconciler = Reconciler("releases", host, open=self._open, advance=self._look, tell=_tell)
        self.reconciler.look_every(LOOK_SECONDS)

    def RevokeRelease(self, request: RevokeReleaseRequest, call: Call) -> Release:
        if not request.reason.strip():
            raise InvalidField("reason", seen="nothing", expected="why it is revoked, in words")

        def revoke(unit: Unit) -> Release:
            found = self.resource.lock(unit, request.name)
            if found.standing not in (STANDING_ACTIVE, STANDING_STALE, STANDING_REVOKED):
                seen = Standing.Name(found.standing).removeprefix("STANDING_").lower()
                raise Refused("NOT_RELEASED", f"{found.name} is {seen}; expected a release that passed")
            if request.validate_only or found.standing == STANDING_REVOKED:
                return found
            found.standing, found.reason = STANDING_REVOKED, clipped(f"revoked: {request.reason}")
            self._relied.forget(unit, found.name)
            made = self.resource.put(unit, found)
            unit.fact(made.name, ReleaseRevoked(release=made.name, checkpoint=made.checkpoint))
            return made

        return self._host.units.run(revoke)

    def GetSigningKey(self, request: GetSigningKeyRequest, call: Call) -> SigningKey:
        return SigningKey(key=self._host.units.run(self.keys.of).public)

    def _run(self, context: TaskContext, release: Release) -> Outcome:
        spec = release.spec
        try:
            compared = [self._compared(each) for each in spec.comparisons]
            checkpoint = self._candidate(compared)
            relied = evidence.gather(self._find, [each.name for each in compared], checkpoint)
            candidate = self._find(checkpoint)
        except NotFound as error:
            raise WorkFailed(f"{error.message}; run the recipe again") from error
        if candidate.suspect:
            raise WorkFailed(f"{checkpoint} is suspect and cannot be released: {candidate.suspect}")
        state = candidate.state_digest
        context.check()
        try:
            baselines = [self._state(each.spec.baseline.name) for each in compared]
        except NotFound as error:
            raise WorkFailed(f"{error.message}; run the recipe again") from error

        def tried(unit: Unit) -> list[Try]:
            return [
                self.tries.of(unit, state, baseline, each.result.content_digest)
                for each, baseline in zip(compared, baselines, strict=True)
            ]

        tries = self._host.units.run(tried)
        found = rules.findings([_figures(*each) for each in zip(compared, tries, strict=True)], limits(spec))
        passed = all(each.passed for each in found)
        simulated = all(each.simulated for each in compared)
        mixed = not simulated and any(each.simulated for each in compared)
        numbers = {each.name: number for number, each in enumerate(compared)}
        body: dict[str, JsonValue] = {
            "comparisons": [each.content_digest for each in spec.comparisons],
            "evidence": sorted({item.digest for item in relied}),
            "findings": [each.to_json(numbers[each.comparison]) for each in found],
            "passed": passed,
            "rules": dict(limits(spec)),
            "simulated": simulated,
            "state_digest": state,
        }
        if mixed:  # left out otherwise, so that other releases have the content that they always had
            body["mixed"] = True
        manifest = Manifest(Kind.RELEASE, body, (), version.producer("evaluation"))
        result = publish(self._host.blobs, "evaluation", manifest, data_bytes=0)

        def fill(unit: Unit, done: Release) -> None:
            done.result.CopyFrom(result)
            done.standing = STANDING_ACTIVE if passed else STANDING_REFUSED
            done.checkpoint, done.state_digest = checkpoint, state
            done.simulated, done.mixed = simulated, mixed
            done.findings.extend(_finding(each) for each in found)
            done.evidence.extend(Evidence(resource=item.resource, digest=item.digest) for item in relied)
            if not passed:
                done.reason = clipped("; ".join(each.words for each in found if not each.passed))
                return
            key = self.keys.of(unit)
            done.statement = canonical_json(manifest.body).decode()
            done.signature, done.key = key.sign(signatures.RELEASE, done.statement), key.public
            self._relied.keep(unit, done.name, relied)
            unit.on_commit(partial(self.reconciler.wake, done.name))

        return fill

    def _compared(self, named: ReleasedComparison) -> Comparison:
        """Raises WorkFailed, NotFound."""
        found: Comparison = self._find(named.name)
        if found.result.content_digest != named.content_digest:
            raise WorkFailed(
                f"{named.name} has the content {found.result.content_digest or 'nothing'}; expected "
                f"{named.content_digest}: run the recipe again"
            )
        return found

    def _candidate(self, compared: Sequence[Comparison]) -> str:
        """The checkpoint that wrote the candidate's answers. Raises WorkFailed, NotFound."""
        names = {self._find(each.spec.candidate.name).spec.checkpoint for each in compared}
        if len(names) != 1:
            raise WorkFailed(
                f"the comparisons have {len(names)} candidates, {', '.join(sorted(names))}; expected one: make a "
                "release of each"
            )
        return str(names.pop())

    def _state(self, sample: str) -> str:
        """The state of the checkpoint that wrote a sample. Raises NotFound."""
        return str(self._find(self._find(sample).spec.checkpoint).state_digest)

    def _open(self, unit: Unit) -> Iterable[str]:
        return [each.name for each in self.resource.select(unit, standing=int(STANDING_ACTIVE))]

    def _look(self, name: str) -> None:
        """Look at the evidence of an active release."""
        known = self._host.units.run(lambda unit: self.resource.get(unit, name))
        if known.standing != STANDING_ACTIVE:
            return
        why = evidence.change(self._find, [Item(each.resource, each.digest) for each in known.evidence])
        if not why:
            return

        def stale(unit: Unit) -> None:
            found = self.resource.lock(unit, name)
            if found.standing == STANDING_ACTIVE:
                found.standing, found.reason = STANDING_STALE, clipped(f"stale: {why}; run the recipe again")
                self.resource.put(unit, found)
                self._relied.forget(unit, name)

        self._host.units.run(stale)


def _tell(unit: Unit, name: str, trouble: Trouble | None) -> None:
    """Nothing: a release whose owners do not answer is looked at again, and stays what it was until they do."""


def _figures(compared: Comparison, tried: Try) -> rules.Compared:
    wins = compared.wins
    return rules.Compared(
        compared.name,
        judged=wins.mean,
        low=tried.low(wins.mean, wins.low, wins.clusters),
        judgements=compared.judgements,
        tries=tried.number,
        level=tried.level,
        promised=compared.promised if compared.HasField("promised") else None,
        divergence=compared.divergence if compared.HasField("divergence") else None,
    )


def _finding(each: rules.Finding) -> ReleaseFinding:
    made = ReleaseFinding(
        rule=each.rule, comparison=each.comparison, seen=each.seen, limit=each.limit, passed=each.passed
    )
    if each.rule == rules.WIN:
        made.judgements, made.try_number, made.level = each.of.judgements, each.of.tries, each.of.level
    return made
