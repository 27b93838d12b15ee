"""Training a classifier by its recipe: asked for once, found again whenever it is asked for again.

Promises: what is there already is the classifier of this recipe over the texts of today, wherever they lay then; a name
that another classifier has is refused, never given to a second one.
"""

from tutti.chassis.client import Client
from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound
from tutti.cli import waiting
from tutti.cli.classifierrecipe import asked_for
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.nouns import full_name
from tutti.cli.output import READING_SECONDS, patiently, say
from tutti.cli.platform import Platform
from tutti.cli.waiting import cancelling
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_FAILED, GetRequest
from tutti.contracts.ingest.v1 import (
    Classifier,
    ClassifierSpec,
    CreateClassifierRequest,
    DigestInputRequest,
    IngestSpec,
)

RENAME = "a name keeps its classifier: choose another, with --set name=…"


def trained(platform: Platform, name: str, spec: ClassifierSpec) -> Classifier:
    """The classifier that a spec asks for under a name, trained now unless it was before. Raises Failure."""
    client, full = platform.client, full_name("classifiers", name)
    asked = CreateClassifierRequest(request_id=fresh_id(), name=full, spec=spec, validate_only=True)
    try:
        judged = client.ingest.CreateClassifier(asked).classifier
    except InvalidField as problem:
        raise Failure(problem.message.removeprefix("spec."), MISUSE) from problem
    known = there(client, full)
    if known is not None:
        _same_request(known, judged)
    else:
        asked.validate_only = False
        try:
            client.ingest.CreateClassifier(asked)
        except AlreadyExists as problem:
            raise Failure(f"{full} was asked for by another at the same time; {RENAME} [ALREADY_EXISTS]") from problem
    with cancelling(client.ingest.CancelClassifier, full), patiently(f"{full} is trained"):
        done = waiting.done(lambda: client.ingest.GetClassifier(GetRequest(name=full)), platform.ended)
    if known is not None:
        _same_texts(client, done, spec)
        logic = known.spec.logic_version, judged.spec.logic_version
        older = "" if len(set(logic)) == 1 else f" by {logic[0]}, and {logic[1]} may learn another, under another name"
        say(f"{name}@{done.model_digest} was trained before{older}; these are the same texts, and nothing was done")
    return done


def there(client: Client, full: str) -> Classifier | None:
    """The classifier of a name, or what will be one; None where nothing came of it."""
    try:
        found: Classifier = client.ingest.GetClassifier(GetRequest(name=full))
    except NotFound:
        return None
    return None if found.state in (STATE_FAILED, STATE_CANCELLED) else found


def _same_request(known: Classifier, judged: Classifier) -> None:
    before, now = asked_for(known.spec), asked_for(judged.spec)
    if differ := [f"{key} {before[key]}, not {now[key]}" for key in now if before[key] != now[key]]:
        raise Failure(f"{known.name} exists with {', '.join(differ)}; {RENAME} [ALREADY_EXISTS]")


def _same_texts(client: Client, known: Classifier, spec: ClassifierSpec) -> None:
    folder = IngestSpec(input_path=spec.input_path, text_field=spec.text_field)
    with patiently(f"reads {spec.input_path}, to see whether its texts are those of {known.name}"):
        found = client.ingest.DigestInput(DigestInputRequest(spec=folder), timeout=READING_SECONDS)
    if found.input_digest != known.source_digest:
        raise Failure(
            f"{known.name} exists and learnt from other texts than {spec.input_path} holds now; {RENAME} "
            "[ALREADY_EXISTS]"
        )
