"""URLs of Postgres, with one host and with several."""

from urllib.parse import unquote

import pytest
from psycopg.conninfo import conninfo_to_dict

from tutti.backbone.postgres.connection import engine_url, place


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("postgresql://u:p%40x@a:1/db", "a", 1),
        ("postgresql://u:p%40x@a:1,b:2/db?target_session_attrs=read-write", "a,b", "1,2"),
        ("postgresql://u:p%40x@a:1,b:2,c:3/db", "a,b,c", "1,2,3"),
    ],
)
def test_the_engine_and_psql_read_the_same_from_a_url(url: str, host: str, port: int | str) -> None:
    engine = engine_url(url)
    _, settings = engine.get_dialect()().create_connect_args(engine)
    theirs = conninfo_to_dict(url)
    assert (settings["host"], settings["port"]) == (host, port)
    assert {**settings, "port": str(settings["port"])} == theirs
    assert unquote("p%40x") == settings["password"]


def test_a_place_names_every_host_and_no_password() -> None:
    assert place("postgresql://u:p@a:1,b/db?target_session_attrs=read-write") == "a:1,b:5432/db"
