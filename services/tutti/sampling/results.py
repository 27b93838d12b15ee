"""Manifests of samples and exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.corpus.conversations.conversationset import Lines
from tutti.inference.sampling import Sampling
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import written
from tutti.sampling.continuing import Continued


@dataclass(frozen=True, slots=True)
class File:
    """A file of an export; its blob is named by the digest of its bytes."""

    name: str
    bytes: int
    bytes_digest: str

    @property
    def key(self) -> str:
        return f"sampling/exports/{self.bytes_digest.removeprefix('blake3:')}"


def sample_manifest(
    checkpoint: str, model_digest: str, sampling: Sampling, tokens: int, found: Sequence[Continued], *, producer: str
) -> Manifest:
    body: dict[str, JsonValue] = {
        "continuations": [written(each) for each in found],
        "model_digest": model_digest,
        "sampling": written(sampling),
        "tokens": tokens,
    }
    return Manifest(Kind.SAMPLE, body, (checkpoint,), producer)


def answers_manifest(
    model_digest: str,
    prompts_digest: str,
    part: str,
    sampling: Sampling,
    *,
    tokens: int,
    each: int,
    lines: Lines,
    producer: str,
) -> Manifest:
    """The manifest of answers to conversations, in a blob of lines. Its digest depends only on contents, not on
    names.
    """
    body: dict[str, JsonValue] = {
        "each": each,
        "lines": lines.to_json(),
        "model_digest": model_digest,
        "part": part,
        "prompts": prompts_digest,
        "sampling": written(sampling),
        "tokens": tokens,
    }
    return Manifest(Kind.SAMPLE, body, (), producer)


def answer_lines(manifest: Manifest) -> Lines | None:
    """The blob of answers; None for a sample of continued texts. Raises InvalidManifest."""
    return Lines.of(manifest) if "lines" in manifest.body else None


def continuations(manifest: Manifest) -> list[Continued]:
    """Raises InvalidManifest."""
    fields = Fields(manifest.body, path="body", error=InvalidManifest)
    return [
        Continued(
            each.text("prompt"), each.text("text"), each.count("tokens"), each.text("stop"), **each.later(Continued)
        )
        for each in fields.objects("continuations")
    ]


def export_manifest(checkpoint: str, model_digest: str, files: Sequence[File], *, producer: str) -> Manifest:
    body: dict[str, JsonValue] = {
        "files": [written(each) for each in files],
        "format": "hugging-face",
        "model_digest": model_digest,
    }
    return Manifest(Kind.EXPORT, body, (checkpoint,), producer)
