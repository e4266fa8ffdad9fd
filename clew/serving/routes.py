"""The routes of a server as OpenAPI 3.1 describes them, made of what each verb may be asked. Knows no server."""

from collections.abc import Mapping
from typing import Any

from clew.runs.asking import find_use, own_values
from clew.runs.loaded import Run
from clew.serving.calls import LIMITS, MOST_TEXTS

ERRORS = {
    "400": "what was asked is not understood; the sentence says what is wrong",
    "413": "more than 1,000,000 bytes",
    "503": "too many wait; ask again after Retry-After seconds",
    "504": "no answer in time",
}


def described(routes: Mapping[str, tuple[Run, str]], version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {
        path: {"post": {**told(verb, f"{run.uses[verb].about}: {run.folder.name}"), "requestBody": body_of(run, verb)}}
        for path, (run, verb) in routes.items()
    }
    for path, about in OTHERS.items():
        paths[path] = {"get": {"summary": about, "responses": {"200": {"description": about}}}}
    return {"openapi": "3.1.0", "info": {"title": "clew serve", "version": version}, "paths": paths}


def told(verb: str, about: str) -> dict[str, Any]:
    answers = {"type": "object", "properties": {"answers": {"type": "array", "items": {"type": "object"}}}, "required": ["answers"]}
    said = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    found = {"200": {"description": f"the objects of `clew {verb} --json`", "content": {"application/json": {"schema": answers}}}}
    found |= {status: {"description": why, "content": {"application/json": {"schema": said}}} for status, why in ERRORS.items()}
    return {"summary": about, "responses": found}


def body_of(run: Run, verb: str) -> dict[str, Any]:
    """A row's fields, or several rows in `texts`, and options, whose defaults are those of the run."""
    use = find_use(run, verb)
    rows, options = use.row.model_json_schema(), use.options.model_json_schema()
    first, *others = rows["properties"]
    several = f"or several, at most {MOST_TEXTS}: texts, lists of fields, or objects"
    fields: dict[str, Any] = {
        "text": rows["properties"][first],
        "texts": {"title": "Texts", "type": "array", "maxItems": MOST_TEXTS, "items": {}, "description": several},
    }
    fields |= {name: rows["properties"][name] for name in others}
    fields |= {name: field for name, field in options.get("properties", {}).items() if name not in use.local}
    if use.stream is not None:
        fields["stream"] = {"title": "Stream", "type": "boolean", "default": False, "description": "send the text piece by piece"}
    own = own_values(run.config, use.options)
    for name in fields.keys() & own.keys():
        fields[name] = {**fields[name], "default": own[name]}
    for name in fields.keys() & LIMITS.keys():
        fields[name] = {**fields[name], "maximum": LIMITS[name]}
    schema: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    if defs := definitions(rows, options):
        schema["$defs"] = defs
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def definitions(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for schema in schemas for name, each in schema.get("$defs", {}).items()}


OTHERS = {
    "/": "these routes",
    "/health": "whether the server answers, of which runs, and by which version",
    "/metrics": "counts, for Prometheus",
}
