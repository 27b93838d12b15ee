"""Users of an S3 server: one for each service, and one for the agent of each node, with the rights of
`owned.BlobRights`.

Promises: the bucket exists, and its policy lets each user write and delete what its rights say, and nothing else. A
service reads all blobs; what it should not read, `owned.OwnedBlobs` refuses. A reader, who is a person, reads all
blobs. An agent reads what its rights say, and writes keys that end with its node. All see the names of all blobs. How a
server learns of a user and its secret is its own affair: `accounts` is the file of versitygw (`--iam-dir`).
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3

from tutti.backbone.blobs import OF_NODE, BlobsRefused, BlobsUnavailable
from tutti.backbone.owned import AUDIT, CHECKS, EACH, STACK, BlobRights
from tutti.backbone.s3.sdk import Minio, MinioException, S3Error

log = logging.getLogger(__name__)

SECONDS = 10.0
ACCOUNTS = "users.json"
"""The name of the file that `accounts` gives, in the folder of `--iam-dir`."""
SMALL = 3_700
"""Bytes of a policy that any server keeps: one may have it in an attribute of a folder, which holds 4 KB on ext4."""
_READS, _WRITES, _DELETES = ("s3:ListBucket", "s3:GetObject"), ("s3:PutObject",), ("s3:DeleteObject",)
_OWNS = ("s3:*Object",)
_ADDS = ("s3:*tObject",)  # PutObject, and GetObject to compare what is there already


def agent(node: str) -> str:
    """The user of a node's agent."""
    return f"agent-{node}"


def declared(text: str, nodes: Sequence[str] = ()) -> dict[str, BlobRights]:
    """The rights of each user, by the file that `tools/pages.py` generates; those of agents for each of these nodes."""
    found: dict[str, BlobRights] = {}
    for user, values in json.loads(text).items():
        node = values.pop("node", "")
        rights = BlobRights(**{name: tuple(prefixes) for name, prefixes in values.items()}, node=node)
        found |= {agent(each): replace(rights, node=each) for each in nodes} if node == EACH else {user: rights}
    return found


def accounts(secrets: Mapping[str, str]) -> str:
    """The users of versitygw with their secrets, as JSON; none of them may make a bucket or a user."""
    users = {
        user: {"access": user, "secret": secret, "role": "user", "userID": 0, "groupID": 0, "projectID": 0}
        for user, secret in secrets.items()
    }
    return json.dumps({"accessAccounts": users})


def policy(bucket: str, rights: Mapping[str, BlobRights], *, readers: Sequence[str] = (), apart: bool = True) -> str:
    """The policy of a bucket, as JSON. `readers` may read all blobs, and nothing else. Unless nodes are kept `apart`,
    each may write what any of them may.

    It is kept short: a server may have it in an attribute of a folder, which holds 4 KB on ext4.
    """
    place = f"arn:aws:s3:::{bucket}"

    def below(prefixes: Iterable[str], node: str = "") -> list[str]:
        return [f"{place}/{prefix}*{node}" for prefix in prefixes]

    agents = {user: own for user, own in rights.items() if own.node}
    services = [user for user in rights if user not in agents]
    statements = [_allow([*services, *readers], _READS, [place, f"{place}/*"])]
    more = dict[str, list[str]]()
    for user in services:
        own = rights[user]
        owned = [prefix for prefix in own.writes if prefix in (f"{user}/", f"{AUDIT}{user}/")]
        statements.append(_allow([user], _OWNS, below(owned)))
        for prefix in own.writes:
            if prefix not in (*owned, STACK):
                more.setdefault(prefix, []).append(user)
    statements += [_allow(users, _WRITES, below([prefix])) for prefix, users in more.items()]
    for own in list(agents.values())[:1]:  # they differ in their nodes alone
        statements.append(_allow([*agents], _READS, [place, *below(own.reads)]))
        if not apart:
            statements.append(_allow([*agents], _ADDS, below(own.writes)))
    for user, own in agents.items() if apart else ():
        statements.append(_allow([user], _ADDS, below(own.writes, f"{OF_NODE}{own.node}")))
    statements.append(_allow(services, _WRITES, below([STACK])))
    statements.append(_allow(services, _DELETES, below([CHECKS])))
    others = {
        user: [prefix for prefix in rights[user].deletes if prefix not in (CHECKS, f"{user}/")] for user in services
    }
    statements += [_allow([user], _DELETES, below(prefixes)) for user, prefixes in others.items() if prefixes]
    statements.append({**_allow(["*"], _DELETES, below([AUDIT])), "Effect": "Deny"})
    return json.dumps({"Statement": statements}, separators=(",", ":"))


def _allow(users: Sequence[str], actions: Sequence[str], places: Sequence[str]) -> dict[str, Any]:
    users, actions, places = (values[0] if len(values) == 1 else list(values) for values in (users, actions, places))
    return {"Effect": "Allow", "Principal": users, "Action": actions, "Resource": places}


def ensure_bucket(admin_url: str, rights: Mapping[str, BlobRights], readers: Sequence[str] = ()) -> None:
    """Create the bucket of the URL if it is missing, and set its policy. Raises BlobsRefused, BlobsUnavailable.

    With many agents the policy can be too long for the server. Then it does not keep them apart, which is logged.
    """
    parts = urlsplit(admin_url)
    bucket = parts.path.strip("/").partition("/")[0]
    client = Minio(
        f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}",
        access_key=unquote(parts.username or ""),
        secret_key=unquote(parts.password or ""),
        secure="secure=false" not in parts.query,
        region="us-east-1",
        http_client=urllib3.PoolManager(timeout=urllib3.Timeout(SECONDS), retries=urllib3.Retry(3, backoff_factor=0.2)),
    )
    try:
        if not client.bucket_exists(bucket):
            client.make_bucket(bucket)
        wanted = policy(bucket, rights, readers=readers)
        try:
            client.set_bucket_policy(bucket, wanted)
        except S3Error as error:
            if len(wanted) <= SMALL:
                raise
            client.set_bucket_policy(bucket, policy(bucket, rights, readers=readers, apart=False))
            log.warning(
                "s3://%s/%s: the server cannot keep a policy of %d bytes (%s), so every agent may write over what "
                "others wrote: use fewer agents, or keep the data of the server on XFS",
                parts.hostname, bucket, len(wanted), error.message,
            )  # fmt: skip
    except S3Error as error:
        raise BlobsRefused(f"s3://{parts.hostname}/{bucket}: the policy was refused: {error.message}") from error
    except (MinioException, urllib3.exceptions.HTTPError) as error:
        raise BlobsUnavailable(f"s3://{parts.hostname}/{bucket}: {error}") from error
