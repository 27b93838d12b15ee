"""A platform with a checkpoint of random weights that can answer, for tests of the service."""

from contextlib import closing
from typing import Any

from tests import talks
from tests.chat.replicas import MODEL
from tests.web.hosted import BUILDS, Hosted
from tutti.backbone.connect import open_blobs
from tutti.chat.service import build as build_chat
from tutti.checkpoints.keys import manifest_of
from tutti.checkpoints.manifest import CheckpointBody
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.evaluation.service import build as build_evaluation
from tutti.model.spec import ModelSpec

CHAT_BUILDS = {**BUILDS, "chat": build_chat, "evaluation": build_evaluation}


def planted(served: Hosted, job: str = "chat", model: ModelSpec = MODEL, **changes: Any) -> str:
    """Store a checkpoint with random parameters; its name. Without `changes` it knows conversations."""
    changes = changes or {"template": CHAT_1.digest, "tokenizer": talks.TOKENIZER.version}
    with closing(open_blobs(served.data_dir.blobs_url)) as blobs:
        made = talks.base(blobs, model, job=job, **changes)
        blobs.put_if_absent(tokenizer_key(talks.TOKENIZER.version), talks.TOKENIZER.artefact)
        body = CheckpointBody.decode(blobs.get(manifest_of(made.name)))
    served.plant(
        "committer",
        Checkpoint(
            name=made.name,
            job=f"jobs/{job}",
            step=1,
            state=CHECKPOINT_STATE_COMMITTED,
            manifest_key=manifest_of(made.name),
            state_digest=made.state_digest,
            model_digest=body.model_digest,
        ),
    )
    return made.name
