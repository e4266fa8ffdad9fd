"""The routes of a server, tested in process: answers to single and simultaneous requests, and errors."""

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import httpx
import pytest
from torch import nn

from clew.serving import batching
from clew.serving.guard import Guard
from clew.serving.service import Service
from clew.tasks.classification import Classifier
from tests.instruments.small_runs import small_run
from tests.serving.asking import Blocked
from tests.serving.conftest import Make

JSON = {"content-type": "application/json"}


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")


def post(client: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str] = JSON) -> Any:
    if body is None:
        return client.get(path)
    return client.post(path, content=body if isinstance(body, bytes) else json.dumps(body), headers=headers)


def ask_all(app: Any, requests: Sequence[tuple[str, Any]], **headers: str) -> list[httpx.Response]:
    """Send all requests at once."""

    async def everyone() -> list[httpx.Response]:
        async with client_of(app) as client:
            return list(
                await asyncio.gather(*(post(client, path, body, {**JSON, **headers}) for path, body in requests))
            )

    return asyncio.run(everyone())


def ask_together(service: Service, requests: Sequence[tuple[str, Any]]) -> list[httpx.Response]:
    """Send all requests while the worker is blocked. The first request is sent twice, to start a batch; the worker is
    released when all others wait or are rejected."""

    async def everyone() -> list[httpx.Response]:
        async with client_of(service.app()) as client:
            with Blocked(service.worker):
                opener = asyncio.ensure_future(post(client, *requests[0]))
                while not service.batcher.running and not any(writer.open for writer in service.writers.values()):
                    await asyncio.sleep(0.001)
                before = service.num_waiting  # the opening request is not counted, or has started
                responses = [asyncio.ensure_future(post(client, *each)) for each in requests]
                while service.num_waiting + sum(other.done() for other in responses) < before + len(requests):
                    await asyncio.sleep(0.001)
            await opener
            return list(await asyncio.gather(*responses))

    return asyncio.run(everyone())


def ask(service: Service, path: str, body: Any = None, **headers: str) -> httpx.Response:
    return ask_all(service.app(), [(path, body)], **headers)[0]


def equal(actual: Any, expected: Any) -> bool:
    """Whether two JSON values are equal, with numbers compared in single precision."""
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(equal(actual[name], expected[name]) for name in expected)
        )
    if isinstance(expected, (list, tuple)):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(equal, actual, expected))
    return (
        math.isclose(actual, expected, rel_tol=1e-4, abs_tol=1e-6)
        if isinstance(expected, float)
        else actual == expected
    )


REQUESTS: list[tuple[str, str, list[dict[str, Any]], dict[str, Any]]] = [
    ("lstm", "generate", [{"text": "the"}, {"texts": ["she went", "a"]}, {"text": "the"}], {"max_new": 5, "seed": 3}),
    ("gpt", "generate", [{"text": "the ball of thread"}, {"text": "t"}], {"max_new": 20, "samples": 2, "top_k": 5}),
    (
        "gpt",
        "generate",
        [{"text": "the"}, {"texts": ["small and", "red"]}],
        {"max_new": 4, "method": "beam", "beams": 3, "n_best": 2},
    ),
    (
        "transformer",
        "translate",
        [{"text": "a red fox"}, {"texts": ["she went in", ""]}, {"text": "the"}],
        {"beams": 3, "n_best": 2},
    ),
    ("attentive", "translate", [{"text": "a red fox"}, {"texts": ["she went in", "the"]}], {"method": "greedy"}),
    (
        "attentive",
        "translate",
        [{"text": "a red fox"}, {"texts": ["a red fox", "the"]}],
        {"method": "sample", "seed": 5},
    ),
    (
        "classifier",
        "classify",
        [{"text": "a red fox"}, {"texts": ["", "she went"]}, {"text": "the walls were tall"}],
        {},
    ),
    ("tagger", "tag", [{"text": "a red fox."}, {"texts": ["she went", ["the", "walls"], ""]}], {}),
    ("parser", "parse", [{"text": "the thread was small"}, {"texts": ["the thread", "", "small"]}], {"n_best": 2}),
    (
        "answerer",
        "answer",
        [{"text": "who went ?"}, {"texts": ["who went in ?", "who was red ?"]}],
        {"passage": "she went in .", "n_best": 2},
    ),
    ("bert", "fill", [{"text": "the [MASK] was small"}, {"texts": ["she [MASK] in", "[MASK] [MASK]"]}], {"top": 2}),
    ("elmo", "embed", [{"text": "a red fox"}, {"texts": ["she went in and out", ""]}], {"layer": 1}),
    ("classifier", "embed", [{"text": "a red fox"}, {"texts": ["she went", "in"]}], {"tokens": True}),
]


@pytest.mark.parametrize(
    ("name", "verb", "bodies", "options"),
    REQUESTS,
    ids=[f"{name} {verb} {options}" for name, verb, _, options in REQUESTS],
)
def test_simultaneous_requests_are_answered_like_single_ones(
    make: Make,
    name: str,
    verb: str,
    bodies: list[dict[str, Any]],
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []
    one_call = batching.one_call
    monkeypatch.setattr(batching, "one_call", lambda parts, saw: sizes.append(len(parts)) or one_call(parts, saw))
    service = make(name)
    requests = [(f"/{verb}", {**body, **options}) for body in bodies]
    together = [response.json() for response in ask_together(service, requests)]
    use = small_run(name).uses[verb]
    joins = use.joins is not None and use.joins.fits(use.options(**options))
    assert sizes == ([] if joins else [1, len(bodies)])
    alone = [ask(service, *each).json() for each in requests]
    assert all(map(equal, together, alone)), (together, alone)
    assert all(answers["answers"] for answers in alone)


def test_answers_equal_those_from_python(make: Make) -> None:
    service, run = make("lstm", "classifier"), small_run("lstm")
    answers = ask(service, "/lstm/generate", {"texts": ["the", "she"], "max_new": 6, "seed": 2}).json()["answers"]
    assert [one["text"] for one in answers] == [one.text for one in run.generate(["the", "she"], max_new=6, seed=2)]
    (classified,) = ask(service, "/classifier/classify", {"text": "a red fox"}).json()["answers"]
    assert classified["label"] == small_run("classifier").classify("a red fox").label and classified["line"] == 1
    assert ask(service, "/generate", {"text": "the"}).status_code == 404


def test_a_request_larger_than_a_batch_is_split_between_others(make: Make) -> None:
    service = make("classifier", batch=3)
    texts = [f"a red fox {'she ' * number}" for number in range(8)]
    many, one = ask_together(service, [("/classify", {"texts": texts}), ("/classify", {"text": "the walls"})])
    assert [answer["text"] for answer in many.json()["answers"]] == texts
    assert [answer["line"] for answer in many.json()["answers"]] == list(range(1, 9))
    assert one.json()["answers"][0]["text"] == "the walls"
    alone = [ask(service, "/classify", {"text": text}).json()["answers"][0]["probabilities"] for text in texts]
    assert equal([answer["probabilities"] for answer in many.json()["answers"]], alone)


def test_a_rejected_request_does_not_affect_others(make: Make) -> None:
    good, bad, other = ask_together(
        make("lstm"), [("/generate", {"text": text, "max_new": 2}) for text in ("the", "the Ж", "she")]
    )
    assert good.status_code == other.status_code == 200
    assert bad.status_code == 400 and "'Ж' (U+0416)" in bad.json()["error"]


MISTAKES: list[tuple[Any, str]] = [
    (b"{", "the request body is not valid JSON"),
    (b"\xff\xfe", "the request body is not valid JSON"),
    (b"[1]", "the request body must be a JSON object with fields"),
    (b"[" * 100_000, "the request body is not valid JSON"),
    (b"{", "); send a JSON object"),
    ({}, 'give "text", or several in "texts"'),
    ({"text": "a", "texts": ["a"]}, "not both"),
    ({"text": 5}, "text takes a text, not 5"),
    ({"texts": "a"}, "texts takes a list, not 'a'"),
    ({"texts": [["a", "b"]]}, "takes one text; give it as a string"),
    ({"texts": []}, "texts takes 1 to 256 items in a request, not 0"),
    ({"texts": ["a"] * 257}, "texts takes 1 to 256 items in a request, not 257"),
    (
        {"text": "a" * 10_001},
        "text 1 has 10,001 characters, but at most 10,000 are read here; shorten it, or send it in parts",
    ),
    (b'{"text": "\\ud800"}', "character 1 of the text 1 (U+D800) is half a character"),
    ({"text": "a", "temprature": 1}, "unknown field 'temprature'; did you mean 'temperature'?"),
    ({"text": "a", "temperature": 0}, "temperature must be above 0, not 0"),
    (b'{"text": "a", "temperature": NaN}', "temperature takes a finite number"),
    ({"text": "a", "max_new": True}, "max_new takes a whole number, not True"),
    ({"text": "a", "max_new": 10**6}, "max_new must be at most 4096 here, not 1000000"),
    ({"text": "a", "seed": 10**30}, "seed takes a number between -2^63 and 2^63"),
    (
        {"texts": ["a"] * 200, "samples": 64},
        "200 texts with 64 samples each are more than 1024 rows; send several requests",
    ),
    ({"texts": ["a", "b"], "stream": True}, "stream needs one text"),
    ({"text": "a", "stream": "yes"}, "stream takes true or false"),
    ({"text": "a", "stream": True, "method": "beam"}, "beam search chooses only at the end"),
]


@pytest.mark.parametrize(("body", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_mistakes_are_reported_in_one_sentence(make: Make, body: Any, sentence: str) -> None:
    response = ask(make("gpt"), "/generate", body)
    assert response.status_code == 400
    assert sentence in response.json()["error"] and "\n" not in response.json()["error"]


def test_pairs_are_rejected_by_runs_that_read_one_text(make: Make) -> None:
    service = make("classifier")
    for body in ({"text": "a", "second": "b"}, {"text": ["a", "b"]}, {"texts": [["a", "b"]]}):
        response = ask(service, "/classify", body)
        assert response.status_code == 400
        assert re.search(
            "takes a text, not|takes one text; give it as a string|unknown field 'second'; known: text",
            response.json()["error"],
        )
    assert "unknown field 'second'" in ask(service, "/classify", {"texts": ["a"], "second": "b"}).json()["error"]


def test_a_streamed_text_equals_the_generated_text(make: Make) -> None:
    service = make("lstm")
    body = {"text": "the", "max_new": 30, "seed": 4}
    (whole,) = ask(service, "/generate", body).json()["answers"]
    lines = [json.loads(line) for line in ask(service, "/generate", {**body, "stream": True}).text.splitlines()]
    assert lines[-1] == {"done": True, "prompt": "the", "text": whole["text"]}
    assert "".join(line["text"] for line in lines[:-1]) == whole["text"]
    events = ask(service, "/generate", {**body, "stream": True}, accept="text/event-stream")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert [json.loads(event.removeprefix("data: ")) for event in events.text.split("\n\n")[:-1]][-1] == lines[-1]
    refused = ask(service, "/generate", {"text": "Ж", "stream": True})
    assert refused.status_code == 400 and "never seen" in refused.json()["error"]
    assert all(writer.streams == 0 for writer in service.writers.values())


def test_a_full_queue_is_rejected_with_retry_after(make: Make) -> None:
    for options in ({}, {"beams": 2}):  # a running batch, in which the first request waits too, and single calls
        responses = ask_together(make("lstm", queue=2), [("/generate", {"text": "the", "max_new": 2, **options})] * 4)
        assert sorted(response.status_code for response in responses) == [200, 200 if options else 503, 503, 503]
    refused = next(response for response in responses if response.status_code == 503)
    assert refused.headers["retry-after"] == "1" and "2 requests are waiting already" in refused.json()["error"]


def test_a_request_over_the_time_limit_fails_and_the_next_succeeds(make: Make) -> None:
    service = make("lstm", seconds=0.3)
    with Blocked(service.worker):
        response = ask(service, "/generate", {"text": "the", "max_new": 2})
    assert response.status_code == 504 and "no answer within 0.3 seconds" in response.json()["error"]
    service.batcher.seconds = service.writers[id(service.runs["lstm"]), "generate"].seconds = 60.0
    assert ask(service, "/generate", {"text": "the", "max_new": 2}).status_code == 200


def test_work_of_a_disconnected_client_is_ended(make: Make) -> None:
    service = make("lstm")
    calls = []
    hook = nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: calls.append(1))

    async def leave() -> None:
        body = json.dumps({"text": "the", "max_new": 4096}).encode()
        messages = [{"type": "http.request", "body": body}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            while not calls:
                await asyncio.sleep(0.001)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/generate",
            "headers": [],
            "query_string": b"",
            "root_path": "",
        }
        await service.app()(scope, receive, send)

    try:
        asyncio.run(leave())
    finally:
        hook.remove()
    assert all(writer.open == [] for writer in service.writers.values())
    assert 'clew_errors_total{run="lstm",verb="generate",status="499"} 1' in ask(service, "/metrics").text
    assert len(calls) < 4096


def test_a_client_that_leaves_a_stream_frees_its_place_at_once(make: Make) -> None:
    service = make("lstm", queue=1)
    messages = [{"type": "http.request", "body": b'{"text": "the", "stream": true}'}, {"type": "http.disconnect"}]
    scope = {"type": "http", "method": "POST", "path": "/generate", "headers": [], "query_string": b"", "root_path": ""}

    async def leave() -> int:
        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            pass

        await service.app()(scope, receive, send)
        return service.num_waiting

    with Blocked(service.worker):
        while service.worker.running is None:
            time.sleep(0.001)
        assert asyncio.run(leave()) == 0
    assert 'clew_errors_total{run="lstm",verb="generate",status="499"} 1' in ask(service, "/metrics").text
    assert ask(service, "/generate", {"text": "the", "stream": True, "max_new": 2}).status_code == 200


def test_a_bug_is_reported_without_the_text_of_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("a red fox")

    monkeypatch.setattr(Classifier, "classify", fail)
    with caplog.at_level(logging.DEBUG, logger="clew"):
        response = ask(make("classifier"), "/classify", {"text": "a red fox"})
    assert response.status_code == 500 and response.json() == {
        "error": "this is a bug in clew: ZeroDivisionError; restart with --debug to see where"
    }
    assert caplog.text == ""


def test_the_index_describes_every_route_with_the_defaults_of_the_run(make: Make) -> None:
    service = make("lstm", "classifier", version="1.2")
    index = ask(service, "/").json()
    assert index["openapi"] == "3.1.0" and index["info"]["version"] == "1.2"
    assert {*index["paths"]} == {
        *(
            "/lstm/generate",
            "/lstm/classify",
            "/lstm/embed",
            "/classifier/classify",
            "/classifier/embed",
            "/",
            "/health",
            "/metrics",
        ),
        "/v1/models",
    }
    schema = index["paths"]["/lstm/generate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["max_new"]["default"] == small_run("lstm").config.decoding.max_new
    assert schema["properties"]["max_new"]["maximum"] == 4096
    for field in schema["properties"].values():
        assert "title" in field


def test_health_lists_the_runs_and_unknown_paths_suggest_routes(make: Make) -> None:
    service = make("classifier", version="1.2")
    assert ask(service, "/health").json() == {
        "ready": True,
        "version": "1.2",
        "runs": {"classifier": {"task": "classification", "verbs": ["classify", "embed"]}},
    }
    missing = ask(service, "/clasify", {"text": "a"})
    assert missing.status_code == 404 and "/classify" in missing.json()["error"]
    assert ask(service, "/classify").status_code == 405


def test_metrics_count_requests_errors_batches_and_tokens(make: Make) -> None:
    service = make("classifier")
    ask_all(
        service.app(),
        [
            ("/classify", {"texts": ["a red fox", "a blue fox"]}),
            ("/classify", {"text": "the walls"}),
            ("/classify", {"text": 1}),
        ],
    )
    lines = ask(service, "/metrics").text.splitlines()
    own = 'run="classifier"'
    for line in (
        f'clew_requests_total{{{own},verb="classify",status="200"}} 2',
        f'clew_errors_total{{{own},verb="classify",status="400"}} 1',
        f'clew_request_seconds_count{{{own},verb="classify"}} 3',
        f'clew_batch_texts_sum{{{own},verb="classify"}} 3',
        f"clew_texts_total{{{own}}} 3",
        f"clew_tokens_total{{{own}}} 8",
        f"clew_unknown_tokens_total{{{own}}} 1",
        f'clew_unknown_share{{{own},of="requests"}} 0.125',
        "clew_queue_length 0",
        "clew_prefix_bytes 0",
    ):
        assert line in lines, line
    assert sum(float(line.split()[-1]) for line in lines if line.startswith("clew_labels_total")) == 3
    assert not any('of="training"' in line or "fox" in line for line in lines)


def test_requests_rejected_by_the_guard_are_counted(make: Make) -> None:
    service = make("classifier")
    guard = Guard(service.app(), on_refusal=service.count_refusal)
    responses = ask_all(guard, [("/classify", b" " * 1_000_001), ("/classify", {"text": "a red fox"})])
    assert [response.status_code for response in responses] == [413, 200]
    assert 'clew_refused_total{status="413"} 1' in ask(service, "/metrics").text


STRANGE = [
    "",
    " ",
    "\n",
    "[MASK]",
    "a\tb",
    "\0",
    "\u202e",
    "😀",
    "(S (NP a))",
    ")",
    "the " * 50,
    "x" * 500,
    "<unk>",
    "[CLS]",
    "\ufeffthe",
]
VALUES = [None, True, 0, 1, -1, 0.5, 1e300, 10**40, "", "beam", [], ["a"], {}, [[]], 65, "-1"]


def test_random_requests_are_answered_or_rejected_in_one_sentence(make: Make) -> None:
    service = make("words", "bert", "attentive", "tagger", "answerer", "classifier", queue=1000)
    random = Random(1)
    requests: list[tuple[str, Any]] = []
    for _ in range(12):
        for path, (run, verb) in service.routes.items():
            fields = [*run.uses[verb].row.model_fields, *run.uses[verb].options.model_fields, "text", "texts", "stream"]
            body: dict[str, Any] = {
                random.choice(fields): random.choice([*VALUES, *STRANGE]) for _ in range(random.randint(0, 2))
            }
            body |= {"max_new": 2} if "max_new" in fields else {}
            body |= {"passage": random.choice(STRANGE)} if "passage" in fields else {}
            body |= (
                {"text": random.choice(STRANGE)} if random.random() < 0.5 else {"texts": random.choices(STRANGE, k=3)}
            )
            requests.append((path, body))
    responses = ask_all(service.app(), requests)
    assert {response.status_code for response in responses} == {200, 400}
    for response in responses:
        if response.status_code == 400:
            assert "\n" not in response.json()["error"] and len(response.json()["error"]) < 700
