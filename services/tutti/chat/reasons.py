"""The reasons that the service, its router and its replicas refuse for."""

from tutti.chassis.errors import Unavailable, declare

KEY_USED, RELEASE_WITHDRAWN, OVERLOADED = "IDEMPOTENCY_KEY_USED", "RELEASE_WITHDRAWN", "OVERLOADED"

declare(
    {
        KEY_USED: "the idempotency key belongs to another request; send the same body, or use another key",
        "KEPT_MOVING": "replica after replica was lost before the next token of the request; look into their logs",
        "NO_RELEASE": "the checkpoint has no active release; release it, or try it with `--experimental`",
        "NOT_FINITE": "the model computed something that is not a number for this request; take another checkpoint",
        "READ_TOO_SLOWLY": "a stream of tokens was read too slowly and has ended; follow the replica again",
        RELEASE_WITHDRAWN: "the release was revoked, or was stale for too long; serve a checkpoint with an active one",
        "FILTER_GONE": "no deployment has the filter of the answer, which is needed to compute it again",
        "REQUEST_GONE": "the request of an answer was deleted, so it cannot be computed again",
        "REPLICA_FULL": "as many requests wait at the replica as it accepts; try again later, or start more replicas",
        "STREAM_ENDED": "the stream that the request belongs to has ended; follow the replica again",
    }
)
declare(
    {
        "NO_REPLICA": "no replica that could serve or continue the request was found in time; the message names them",
        OVERLOADED: "as many answers of the model wait as it makes at once; try again later, or serve more replicas",
    },
    code=Unavailable.code,
)
