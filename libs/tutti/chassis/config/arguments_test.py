import argparse

import pytest

from tutti.chassis.config.arguments import add_overrides

WORD = "correct-horse"


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_overrides(made)
    return made


@pytest.mark.parametrize(
    "override",
    [
        f"database.url=postgresql://tutti:{WORD}@127.0.0.1/tutti",
        f'blobs.url="s3://key:{WORD}@127.0.0.1/tutti"',
        f" log.url = kafka://tutti:{WORD}@127.0.0.1:9092",
        f"rpc.door_secret={WORD}",
        f"own.api_token={WORD}",
    ],
)
def test_a_secret_is_no_argument(
    parser: argparse.ArgumentParser, override: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parser.parse_args(["--set", override])
    said = capsys.readouterr().err
    assert refused.value.code == 2
    assert f"TUTTI_{override.partition('=')[0].strip().upper().replace('.', '__')}" in said
    assert WORD not in said


def test_other_settings_are_arguments(parser: argparse.ArgumentParser) -> None:
    given = ["rpc.listen=127.0.0.1:0", "rpc.tokens=/run/tokens", "blobs.url=file:///tmp/blobs", "database.url="]
    assert parser.parse_args([word for each in given for word in ("--set", each)]).set == given
