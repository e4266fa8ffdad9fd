"""Errors as JSON: one sentence, or, on the routes of OpenAI's API, the object that its clients expect. Knows no other
route."""

from http import HTTPStatus
from typing import Any

OPENAI = "/v1/"
"""The prefix of those routes."""


def error_object(path: str, status: int, sentence: str, code: str | None = None) -> dict[str, Any]:
    if not path.startswith(OPENAI):
        return {"error": sentence}
    kinds = {HTTPStatus.UNAUTHORIZED: "authentication_error", HTTPStatus.FORBIDDEN: "permission_error"}
    kind = "server_error" if status >= 500 else kinds.get(HTTPStatus(status), "invalid_request_error")
    return {"error": {"message": sentence, "type": kind, "param": None, "code": code}}
