"""What a program does with OpenAI's client of any version: `python openai_client.py BASE_URL TOKEN`."""

import sys
from typing import Any

import openai


def main(base_url: str, token: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key=token, timeout=300)
    [model] = [each.id for each in client.models.list()]
    messages = [{"role": "user", "content": "a b c"}]
    options: dict[str, Any] = {"model": model, "messages": messages, "seed": 5, "max_tokens": 20}
    whole = client.chat.completions.create(**options, n=2, logprobs=True, top_logprobs=2)
    streamed = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    chunks = list(streamed)
    text = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    if text != whole.choices[0].message.content:
        sys.exit(f"streamed {text!r}, whole {whole.choices[0].message.content!r}")
    if chunks[-1].usage is None or whole.choices[1].logprobs is None:
        sys.exit("no usage, or no log-probabilities")
    once = [
        client.chat.completions.create(**options, extra_headers={"Idempotency-Key": "once"}).to_json() for _ in range(2)
    ]
    if once[0] != once[1]:
        sys.exit("a retry with the same key differs")
    echo = client.completions.create(model=model, prompt=["a b", "c"], max_tokens=4, echo=True, logprobs=1)
    if [each.text[:1] for each in echo.choices] != ["a", "c"]:
        sys.exit(f"echoed {echo.choices}")
    try:
        client.completions.create(model=model, prompt="a", suffix="b")
    except openai.BadRequestError as error:
        print(f"openai {openai.__version__}: answers, streams, retries, and {error.param!r} is refused")
    else:
        sys.exit("suffix was not refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
