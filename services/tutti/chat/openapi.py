"""The description of the API as OpenAPI 3.1, made of the table of its fields."""

from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any

from tutti.chat.fields import APIS, Field, Use

ABOUT: Mapping[str, str] = {
    "/v1/chat/completions": "Answer a conversation.",
    "/v1/completions": "Continue texts or token ids.",
    "/tokenize": "The token ids of a text, or of a conversation before its answer.",
    "/detokenize": "The text of token ids.",
}
READ: Mapping[str, str] = {
    "/v1/models": "The models that answer now; `sampling` has the values of fields that a request leaves out.",
    "/tokenizer_info": "The tokenizer of the model, and its special tokens.",
    "/openapi.json": "This description.",
}
REFUSALS: Mapping[str, str] = {
    "400": "The request cannot be answered; param names the field.",
    "401": "The token is missing, expired or revoked.",
    "403": "The token has no role for this call.",
    "404": "No such model.",
    "409": "The request cannot be answered now, such as with an idempotency key of another request.",
    "413": "The body is too large.",
    "415": "The body has another content type.",
    "429": "A limit of the token is reached; retry-after says when to try again.",
    "503": "Too many answers wait, or part of the platform is away; retry-after says when to try again.",
    "504": "There was no answer in time.",
}
ERROR: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}


def document(models: Sequence[str]) -> dict[str, Any]:
    """The whole description, for these models, which serve now."""
    paths: dict[str, Any] = {path: {"get": _operation(about)} for path, about in READ.items()}
    for path, fields in APIS.items():
        streams = "stream" in fields
        body = {"required": True, "content": {"application/json": {"schema": schema_of(fields, models)}}}
        paths[path] = {"post": {**_operation(ABOUT[path], streams=streams), "requestBody": body}}
        if streams:
            paths[path]["post"]["parameters"] = [
                {
                    "name": "idempotency-key",
                    "in": "header",
                    "description": "A retry with the same key and body gets the same answer, and is charged once.",
                    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
                }
            ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tutti", "version": "1", "description": "Answers in the form of OpenAI's API."},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": {"Error": ERROR}},
        "security": [{"token": []}],
        "paths": paths,
    }


def schema_of(fields: Mapping[str, Field], models: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a body with these fields."""
    named = {"model": {**fields["model"].schema, **({"enum": [*models]} if models else {})}}
    return {
        "type": "object",
        "properties": {name: each.schema for name, each in fields.items()} | named,
        "required": [name for name, each in fields.items() if each.required],
        "additionalProperties": False,
    }


def table() -> str:
    """The table of the fields of completions, as Markdown."""
    chat, text = APIS["/v1/chat/completions"], APIS["/v1/completions"]
    lines = ["| field | of | treatment |", "|---|---|---|"]
    for name in sorted({*chat, *text}):
        held = [(api, fields[name]) for api, fields in (("chat", chat), ("completions", text)) if name in fields]
        if len(held) == 2 and held[0][1] == held[1][1]:
            held = [("both", held[0][1])]
        lines += [f"| `{name}` | {api} | {_words(each)} |" for api, each in held]
    return "\n".join(lines)


def _words(field: Field) -> str:
    if field.use is not Use.REFUSED:
        return f"{'ignored: ' if field.use is Use.IGNORED else ''}{field.about}"
    neutral = " or ".join(f"`{dumps(each)}`" for each in field.neutral)
    return f"refused{f', unless it is {neutral}' if neutral else ''}: {field.about}"


def _operation(about: str, *, streams: bool = False) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    refusals = {status: {"description": words, "content": error} for status, words in REFUSALS.items()}
    return {"summary": about, "responses": {"200": {"description": "The answer.", "content": content}, **refusals}}
