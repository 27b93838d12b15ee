"""Users of an S3 server: one for each service, and one for agents, with the rights of `owned.BlobRights`.

Promises: the bucket exists, and its policy lets each user write and delete what its rights say, and nothing else. A
service reads all blobs; what it should not read, `owned.OwnedBlobs` refuses. An agent reads what its rights say. All
see the names of all blobs. How a server learns of a user and its secret is its own affair: `accounts` is the file of
versitygw (`--iam-dir`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3

from tutti.backbone.blobs import BlobsRefused, BlobsUnavailable
from tutti.backbone.owned import AUDIT, CHECKS, STACK, BlobRights
from tutti.backbone.s3.sdk import Minio, MinioException, S3Error

SECONDS = 10.0
ACCOUNTS = "users.json"
"""The name of the file that `accounts` gives, in the folder of `--iam-dir`."""
_READS, _WRITES, _DELETES = ("s3:ListBucket", "s3:GetObject"), ("s3:PutObject",), ("s3:DeleteObject",)
_OWNS = ("s3:*Object",)


def declared(text: str) -> dict[str, BlobRights]:
    """The rights of each user from the file that `tools/pages.py` generates."""
    return {
        user: BlobRights(**{name: tuple(prefixes) for name, prefixes in rights.items()})
        for user, rights in json.loads(text).items()
    }


def accounts(secrets: Mapping[str, str]) -> str:
    """The users of versitygw with their secrets, as JSON; none of them may make a bucket or a user."""
    users = {
        user: {"access": user, "secret": secret, "role": "user", "userID": 0, "groupID": 0, "projectID": 0}
        for user, secret in secrets.items()
    }
    return json.dumps({"accessAccounts": users})


def policy(bucket: str, rights: Mapping[str, BlobRights]) -> str:
    """The policy of a bucket, as JSON.

    It is kept short: a server may have it in an attribute of a folder, which holds 4 KB on ext4.
    """
    place = f"arn:aws:s3:::{bucket}"

    def below(prefixes: Iterable[str]) -> list[str]:
        return [f"{place}/{prefix}*" for prefix in prefixes]

    services = [user for user in rights if rights[user].deletes]
    statements = [_allow(services, _READS, [place, f"{place}/*"])]
    for user, own in rights.items():
        if user in services:
            owned = [prefix for prefix in own.writes if prefix in (f"{user}/", f"{AUDIT}{user}/")]
            statements.append(_allow([user], _OWNS, below(owned)))
            if more := [prefix for prefix in own.writes if prefix not in (*owned, STACK)]:
                statements.append(_allow([user], _WRITES, below(more)))
        else:
            statements.append(_allow([user], _READS, [place, *below((*own.writes, *own.reads))]))
            statements.append(_allow([user], _WRITES, below(own.writes)))
    statements.append(_allow(services, _WRITES, below([STACK])))
    statements.append(_allow(services, _DELETES, below([CHECKS])))
    others = {
        user: [prefix for prefix in rights[user].deletes if prefix not in (CHECKS, f"{user}/")] for user in services
    }
    statements += [_allow([user], _DELETES, below(prefixes)) for user, prefixes in others.items() if prefixes]
    statements.append({**_allow(["*"], _DELETES, below([AUDIT])), "Effect": "Deny"})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _allow(users: Sequence[str], actions: Sequence[str], places: Sequence[str]) -> dict[str, Any]:
    users, actions, places = (values[0] if len(values) == 1 else list(values) for values in (users, actions, places))
    return {"Effect": "Allow", "Principal": {"AWS": users}, "Action": actions, "Resource": places}


def ensure_bucket(admin_url: str, rights: Mapping[str, BlobRights]) -> None:
    """Create the bucket of the URL if it is missing, and set its policy. Raises BlobsRefused, BlobsUnavailable."""
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
        client.set_bucket_policy(bucket, policy(bucket, rights))
    except S3Error as error:
        raise BlobsRefused(f"s3://{parts.hostname}/{bucket}: the policy was refused: {error.message}") from error
    except (MinioException, urllib3.exceptions.HTTPError) as error:
        raise BlobsUnavailable(f"s3://{parts.hostname}/{bucket}: {error}") from error
