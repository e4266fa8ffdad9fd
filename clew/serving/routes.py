"""Builds the OpenAPI 3.1 description of a server's routes from the rows and options of each verb. Knows no server."""

from collections.abc import Mapping
from typing import Any

from clew.runs.asking import find_use, own_values
from clew.runs.loaded import Run
from clew.serving.calls import LIMITS, MOST_FILES, MOST_TEXTS
from clew.serving.sent_files import SentFile

ERRORS = {
    "400": "the request is invalid; the sentence says why",
    "413": "more than {:,} bytes",
    "503": "too many requests are waiting; try again after Retry-After seconds",
    "504": "no answer in time",
}


def openapi_description(routes: Mapping[str, tuple[Run, str]], version: str, most_bytes: int) -> dict[str, Any]:
    paths: dict[str, Any] = {
        path: {
            "post": {
                **operation(verb, f"{run.uses[verb].about}: {run.folder.name}", most_bytes),
                "requestBody": request_schema(run, verb),
            }
        }
        for path, (run, verb) in routes.items()
    }
    for path, summary in OTHER_ROUTES.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}
    return {"openapi": "3.1.0", "info": {"title": "clew serve", "version": version}, "paths": paths}


def operation(verb: str, about: str, most_bytes: int) -> dict[str, Any]:
    answers = {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": {"type": "object"}}},
        "required": ["answers"],
    }
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    responses = {
        "200": {
            "description": f"the objects of `clew {verb} --json`",
            "content": {"application/json": {"schema": answers}},
        }
    }
    for status, why in ERRORS.items():
        responses[status] = {"description": why.format(most_bytes), "content": {"application/json": {"schema": error}}}
    return {"summary": about, "responses": responses}


def request_schema(run: Run, verb: str) -> dict[str, Any]:
    """Return the schema of a request: a row's fields, or several rows in `texts`, and options with the run's
    defaults."""
    use = find_use(run, verb)
    rows, options = use.row.model_json_schema(), use.options.model_json_schema()
    first, *other_names = rows["properties"]
    most = MOST_FILES if use.names_files else MOST_TEXTS
    item_kinds = "files, or objects" if use.names_files else "texts, lists of fields, or objects"
    name, first_schema = (
        (first, file_schema(rows["properties"][first])) if use.names_files else ("text", rows["properties"][first])
    )
    fields: dict[str, Any] = {
        name: first_schema,
        "texts": {
            "title": "Texts",
            "type": "array",
            "maxItems": most,
            "items": {},
            "description": f"several rows, at most {most}: {item_kinds}",
        },
    }
    fields |= {name: rows["properties"][name] for name in other_names}
    fields |= {name: field for name, field in options.get("properties", {}).items() if name not in use.local}
    if use.stream is not None:
        fields["stream"] = {
            "title": "Stream",
            "type": "boolean",
            "default": False,
            "description": "stream the text in pieces",
        }
    own_defaults = own_values(run.config, use.options)
    for name in fields.keys() & own_defaults.keys():
        fields[name] = {**fields[name], "default": own_defaults[name]}
    for name in fields.keys() & LIMITS.keys():
        fields[name] = {**fields[name], "maximum": LIMITS[name]}
    schema: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    if defs := definitions(rows, options):
        schema["$defs"] = defs
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def file_schema(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a file field: the file itself, where the command line takes a path."""
    named = {name: field[name] for name in ("title", "description") if name in field}
    return {**SentFile.model_json_schema(), **named}


def definitions(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for schema in schemas for name, each in schema.get("$defs", {}).items()}


OTHER_ROUTES = {
    "/": "these routes",
    "/v1/models": "the runs for clients of OpenAI's API, which also has /v1/completions and other routes",
    "/health": "whether the server is ready, its runs, and its version",
    "/metrics": "metrics for Prometheus",
}
