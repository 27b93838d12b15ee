"""Training a classifier by its recipe: asked for once, found again whenever it is asked for again.

Promises: what is there already is the classifier of this recipe over the texts of today, wherever they lay then; a name
that another classifier has is refused, never given to a second one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound
from tutti.cli import waiting
from tutti.cli.classifierrecipe import asked_for, of_options, read, spec_of
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.output import patiently
from tutti.cli.platform import Platform
from tutti.cli.runs import naming, read_recipe
from tutti.cli.waiting import cancelling
from tutti.client import READING_SECONDS, Client
from tutti.client.resources import full_name
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.ingest.v1 import (
    Classifier,
    ClassifierSpec,
    CreateClassifierRequest,
    DigestInputRequest,
    IngestSpec,
)

RENAME = "a name keeps its classifier: give this one another"


@dataclass(frozen=True)
class ClassifierRequest:
    """The classifier that a recipe asks for."""

    name: str
    spec: ClassifierSpec

    def request(self, *, only_judge: bool = False) -> CreateClassifierRequest:
        name = full_name("classifiers", self.name)
        return CreateClassifierRequest(request_id=fresh_id(), name=name, spec=self.spec, validate_only=only_judge)


def of_file(path: Path, overrides: Sequence[str] = ()) -> ClassifierRequest:
    """The request in a recipe file. Raises click.UsageError, InvalidField, Failure."""
    with naming(str(path)):
        recipe = read(read_recipe(path), overrides)
    return ClassifierRequest(recipe.name, spec_of(recipe, path.resolve().parent))


def of_folder(folder: Path, overrides: Sequence[str], **options: str | float | None) -> ClassifierRequest:
    """The request for a folder with options. Raises InvalidField."""
    recipe = of_options(folder, overrides, **options)
    return ClassifierRequest(recipe.name, spec_of(recipe, Path.cwd()))


def trained(platform: Platform, wanted: ClassifierRequest) -> tuple[Classifier, bool]:
    """The classifier that is wanted, trained now unless it was before; whether it was. Raises Failure."""
    client, request = platform.client, wanted.request()
    known = _begun(client, wanted)
    if known is None:
        try:
            client.ingest.CreateClassifier(request)
        except AlreadyExists as problem:
            raise Failure(f"{request.name} was asked for by another just now; {RENAME} [ALREADY_EXISTS]") from problem
    with cancelling(client.ingest.CancelClassifier, request.name), patiently(f"trains {request.name}"):
        done = waiting.done(lambda: client.ingest.GetClassifier(GetRequest(name=request.name)), platform.ended)
    if known is not None:
        _same_texts(client, done, wanted)
    return done, known is not None


def trained_before(client: Client, wanted: ClassifierRequest) -> Classifier | None:
    """The same where it is there already; nothing is begun. Raises Failure where the name is another's."""
    known = _begun(client, wanted)
    if known is None or known.state != STATE_DONE:
        return None
    _same_texts(client, known, wanted)
    return known


def _begun(client: Client, wanted: ClassifierRequest) -> Classifier | None:
    """The classifier that is being trained or will be, as requested; None if there is none, or if it failed. Raises
    Failure.
    """
    try:
        judged = client.ingest.CreateClassifier(wanted.request(only_judge=True)).classifier
    except InvalidField as problem:
        raise Failure(problem.message.removeprefix("spec."), MISUSE) from problem
    try:
        known: Classifier = client.ingest.GetClassifier(GetRequest(name=judged.name))
    except NotFound:
        return None
    if known.state in (STATE_FAILED, STATE_CANCELLED):
        return None
    before, now = asked_for(known.spec), asked_for(judged.spec)
    if differ := [f"{key} {before[key]}, not {now[key]}" for key in now if before[key] != now[key]]:
        raise Failure(f"{known.name} exists with {', '.join(differ)}; {RENAME} [ALREADY_EXISTS]")
    return known


def _same_texts(client: Client, known: Classifier, wanted: ClassifierRequest) -> None:
    folder = IngestSpec(input_path=wanted.spec.input_path, text_field=wanted.spec.text_field)
    with patiently(f"reads {folder.input_path}, to see whether its texts are those of {known.name}"):
        found = client.ingest.DigestInput(DigestInputRequest(spec=folder), timeout=READING_SECONDS)
    if found.input_digest != known.source_digest:
        raise Failure(
            f"{known.name} exists and learnt from other texts than {folder.input_path} holds now; {RENAME} "
            "[ALREADY_EXISTS]"
        )
