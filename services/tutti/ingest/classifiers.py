"""Classifiers as work: a folder of labelled folders becomes a model, a blob that is named by its digest.

Promises: the same names and bytes below the folder give the same model; where it lies is told to nobody; a name keeps
the classifier that was trained under it, and is free while none was. Recipes name one as `NAME` or `NAME@DIGEST`, specs
always as the latter.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_file
from tutti.contracts.ingest.v1 import (
    Classifier,
    ClassifierSpec,
    CreateClassifierRequest,
    CreateClassifierResponse,
    LearntLabel,
    ToldTexts,
)
from tutti.corpus.documents.stages import ClassifierBody
from tutti.corpus.quality.classifier import (
    FOLDER,
    LABEL,
    MAGIC,
    MOST_HEADER,
    SUFFIX,
    Header,
    UnreadableClassifier,
    header,
    key_of,
)
from tutti.corpus.quality.features import FEATURES_VERSION
from tutti.corpus.quality.windows import MOST_WINDOW
from tutti.ingest.encoding.normalisation import NORMALISATION_VERSION
from tutti.ingest.paths import Paths, folder
from tutti.ingest.quality.learning import LEARNING_VERSION, Example, HeldOutCounts, Learnt, Unlearnable, learn
from tutti.ingest.quality.rules import Keep, Rule
from tutti.ingest.reading import shards
from tutti.ingest.reading.extraction import EXTRACTION_VERSION, extract
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.reading.rejections import Rejection
from tutti.records.canonical import file_digest, is_digest

LOGIC_VERSION = f"classifier-{LEARNING_VERSION}.{FEATURES_VERSION}.{EXTRACTION_VERSION}.{NORMALISATION_VERSION}"
MOST_FALSE = 0.02
_NAME = re.compile(r"classifiers/[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Trained:
    """A model in the scratch folder, and what is told of it."""

    path: Path
    learnt: tuple[Learnt, ...]
    held: tuple[HeldOutCounts, ...]
    source_digest: str


def train(reading: shards.Reading, keeps: str, most_false: float, window: int, scratch: Path) -> Trained:
    """Learn from every text below the folders of a folder: these are the labels. Raises InputRootError, Unlearnable."""
    surveyor = shards.Surveyor()
    found: list[Example] = []
    left: list[str] = []
    for path, record in shards.read_records(reading, surveyor):
        made = extract(record)
        label, _, rest = path.partition("/")
        if isinstance(made, Rejection):
            left.append(f"{path} ({made.reason.value})")
        elif rest:
            found.append(Example(made.text, label))
    if odd := sorted({each.label for each in found if not LABEL.fullmatch(each.label)}):
        raise Unlearnable(f"a folder is named {odd[0]!r}; expected small letters, digits and _, a letter first")
    try:
        lesson = learn(found, keeps, most_false, surveyor.survey().input_digest, window=window)
    except Unlearnable as error:
        beside = f"; {len(left)} files or records could not be read, the first is {left[0]}" if left else ""
        raise Unlearnable(f"{error}{beside}") from error
    target = scratch / f"model{SUFFIX}"
    target.write_bytes(lesson.classifier.encode())
    return Trained(target, lesson.learnt, lesson.held, surveyor.survey().input_digest)


def reading_of(spec: ClassifierSpec, roots: tuple[str, ...] = ()) -> shards.Reading:
    """Raises InvalidField."""
    path = folder(spec.input_path)
    if not LABEL.fullmatch(spec.keeps):
        raise InvalidField("spec.keeps", seen=spec.keeps or "nothing", expected="the folder of texts that are kept")
    if not 0 < most_false(spec) < 1:
        raise InvalidField("spec.most_false", seen=spec.most_false, expected="a share between 0 and 1")
    if spec.window > MOST_WINDOW:
        raise InvalidField(
            "spec.window", seen=spec.window, expected=f"at most {MOST_WINDOW} characters; 0: whole texts"
        )
    return shards.Reading(path, shards.MAX_FILE_BYTES, 0, spec.text_field or shards.TEXT_FIELD, roots=roots)


def most_false(spec: ClassifierSpec) -> float:
    return spec.most_false if spec.HasField("most_false") else MOST_FALSE


def work_of(host: Host, paths: Paths) -> Work[Classifier]:
    """The work of training."""

    def run(context: TaskContext, found: Classifier) -> Outcome:
        spec = ClassifierSpec()
        spec.CopyFrom(found.spec)
        spec.input_path = host.units.run(lambda unit: paths.find(unit, found.name))
        with tempfile.TemporaryDirectory(prefix="tutti-classifier-") as scratch:
            try:
                reading = reading_of(spec, paths.roots)
                made = context.pool(train, reading, spec.keeps, most_false(spec), spec.window, Path(scratch))
            except (InputRootError, Unlearnable) as error:
                raise WorkFailed(str(error).replace("input.path: ", "the labelled folder: ", 1)) from error
            key, digest = put_file(host.blobs, FOLDER, made.path), file_digest(made.path)
            size = made.path.stat().st_size
        body = ClassifierBody(model=key, source_digest=made.source_digest)
        manifest = body.manifest(producer=version.producer("ingest"))
        result = publish(host.blobs, FOLDER, manifest, data_bytes=size)

        def fill(unit: Unit, found: Classifier) -> None:
            found.result.CopyFrom(result)
            found.model_digest, found.source_digest = digest, made.source_digest
            found.labels.extend(
                LearntLabel(label=each.label, trained=each.trained, held_out=each.held_out, threshold=each.threshold)
                for each in made.learnt
            )
            found.held_out.extend(
                ToldTexts(label=each.label, language=each.language, told=label, texts=texts)
                for each in made.held
                for label, texts in each.told
            )

        return fill

    return Work(host, "classifiers", Classifier, run, LOGIC_VERSION)


def named(references: Iterable[str]) -> list[tuple[str, str]]:
    """Name and digest of each NAME@DIGEST, sorted. Raises InvalidField."""
    found = {}
    for reference in references:
        name, _, digest = reference.partition("@")
        if not _NAME.fullmatch(f"classifiers/{name}") or not is_digest(digest) or name in found:
            raise InvalidField(
                "spec.classifiers", seen=reference, expected="NAME@DIGEST as `tutti classifiers show` has it, each once"
            )
        found[name] = digest
    return sorted(found.items())


def rules_of(blobs: Blobs, references: Sequence[str]) -> list[Rule]:
    """The rules of classifiers, one a label, by thresholds that their training chose. Raises InvalidField."""
    rules = []
    for name, digest in named(references):
        rules += [
            Rule(f"{name}.{label.name}", f"{name}.{label.name}", None, Keep.LESS_THAN, label.threshold)
            for label in _header(blobs, digest).labels
        ]
    return rules


def _header(blobs: Blobs, digest: str) -> Header:
    key = key_of(digest)
    try:
        return header(blobs.get_range(key, 0, min(blobs.stat(key).size, len(MAGIC) + MOST_HEADER)))
    except (BlobMissing, UnreadableClassifier) as error:
        raise InvalidField(
            "spec.classifiers", seen=digest, expected=f"the model of a classifier that was trained here ({error})"
        ) from error


class ClassifierApi:
    """The calls about classifiers."""

    def __init__(self, classifiers: Work[Classifier], paths: Paths) -> None:
        self._classifiers, self._places = classifiers, paths

    def create(self, request: CreateClassifierRequest, call: Call) -> CreateClassifierResponse:
        self._places.check(request.spec.input_path, call.principal)
        reading_of(request.spec)
        if not _NAME.fullmatch(check_name("classifiers", request.name)):
            raise InvalidField(
                "name", seen=request.name, expected="classifiers/ and at most 40 of a-z 0-9 _ -, a letter first"
            )
        shown = ClassifierSpec()
        shown.CopyFrom(request.spec)
        shown.ClearField("input_path")
        made = self._classifiers.create(
            request,
            shown=shown,
            keep=lambda unit: self._places.keep(unit, request.name, request.spec.input_path),
            anew=True,
        )
        return CreateClassifierResponse(classifier=made)
