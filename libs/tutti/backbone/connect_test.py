import subprocess
import sys
from pathlib import Path

import pytest

from tutti.backbone.connect import BadUrl, open_blobs, open_database, open_log

CLIENTS = ("kafka", "psycopg", "minio", "grpc", "torch")


def test_embedded_adapters_come_from_urls(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    url = str(folder).replace(" ", "%20")
    open_log(f"sqlite://{url}/events.db").close()
    open_database(f"sqlite://{url}", "scheduler").close()
    open_blobs(f"file://{url}/blobs").close()
    assert {path.name for path in folder.iterdir()} >= {"events.db", "scheduler.db", "blobs"}


@pytest.mark.parametrize("url", ["", "events.db", "redis://x", "sqlite://host/x", "sqlite:///", "kafka://", "file:x"])
def test_an_url_that_is_no_log_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        open_log(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://host/bucket",
        "s3://key:hush@host/",
        "s3://key:hush@host/bucket?secure=maybe",
        "s3://key:hush@host/bucket?sucure=true",
        "ftp://key:hush@host/bucket",
        "file://",
    ],
)
def test_an_url_that_is_no_blob_store_is_refused_without_telling_its_secret(url: str) -> None:
    with pytest.raises(BadUrl) as raised:
        open_blobs(url)
    assert "hush" not in str(raised.value)


def test_an_url_that_is_no_database_is_refused_without_telling_its_secret() -> None:
    with pytest.raises(BadUrl, match=r"\*\*\*") as raised:
        open_database("mysql://user:hush@host/x", "scheduler")
    assert "hush" not in str(raised.value)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_embedded_imports_no_client_library(tmp_path: Path) -> None:
    found = run(
        "import sys; from tutti.backbone.connect import *\n"
        f"open_log('sqlite://{tmp_path}/e.db'); open_database('sqlite://{tmp_path}', 's'); "
        f"open_blobs('file://{tmp_path}/b')\n"
        f"print([name for name in {CLIENTS!r} if name in sys.modules])"
    )
    assert found == "[]"


def test_opening_blobs_imports_no_sql(tmp_path: Path) -> None:
    found = run(
        f"import sys; from tutti.backbone.connect import open_blobs; open_blobs('file://{tmp_path}/b')\n"
        "print([name for name in ('sqlalchemy', 'sqlite3') if name in sys.modules])"
    )
    assert found == "[]"


@pytest.mark.parametrize(
    ("client", "extra", "call"),
    [
        ("kafka", "kafka", "open_log('kafka://127.0.0.1:9')"),
        ("psycopg", "postgres", "open_database('postgresql://127.0.0.1:9/x', 's')"),
        ("minio", "s3", "open_blobs('s3://k:s@127.0.0.1:9/b')"),
    ],
)
def test_a_missing_client_library_is_named_with_its_remedy(client: str, extra: str, call: str) -> None:
    found = run(
        f"import sys; sys.modules['{client}'] = None\n"
        "from tutti.backbone.connect import *\n"
        f"try:\n    {call}\nexcept MissingExtra as error:\n    print(error)"
    )
    assert f"pip install 'tutti[{extra}]'" in found
