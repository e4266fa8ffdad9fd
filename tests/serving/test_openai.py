"""The routes of OpenAI's API, tested with OpenAI's client over a local address."""

import asyncio
import json
import math
import struct
import threading
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from clew.core.errors import UserError
from clew.serving.guard import Guard
from clew.serving.openai.chat_templates import ChatTemplate, read_template
from clew.serving.openai.choices import Choice as Growing
from clew.serving.openai.choices import first_stop, held_back
from clew.serving.openai.requests import NEUTRAL
from clew.serving.server import listen
from clew.serving.service import Service
from clew.serving.worker import Worker
from tests.instruments.small_runs import small_run

CHAT = {"user": "{content}\n", "assistant": "{content}\n", "system": None, "answer": "", "stop": []}


class Served:
    """A server of small runs behind their guard, at a local address."""

    def __init__(self, names: list[str], **options: Any):
        self.worker = Worker()
        self.service = Service([small_run(name) for name in names], self.worker, **options)
        self.socket = listen(0)
        app = Guard(self.service.app(), most_bytes=self.service.most_bytes, key=None)
        self.server = uvicorn.Server(uvicorn.Config(app, loop="asyncio", lifespan="off", log_config=None, ws="none"))
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.socket])), daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.client = openai.OpenAI(base_url=f"{self.address}/v1", api_key="none", max_retries=0, timeout=30)

    def close(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(10)
        assert self.worker.close(10.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    template = tmp_path_factory.mktemp("chat") / "template.json"
    template.write_text(json.dumps(CHAT), encoding="utf-8")
    server = Served(["lstm", "bytes", "classifier"], templates=template)
    yield server
    server.close()


def texts(name: str, text: str, **options: Any) -> list[str]:
    return [one.text for row in small_run(name).ask("generate", [text], **options) for one in row]


def test_models_are_the_runs_with_a_route(served: Served) -> None:
    models = served.client.models.list()
    assert [model.id for model in models] == ["bytes", "classifier", "lstm"]
    assert served.client.models.retrieve("lstm").owned_by == "clew"
    with pytest.raises(openai.NotFoundError) as error:
        served.client.models.retrieve("gpt")
    assert error.value.code == "model_not_found"
    assert error.value.body["message"] == "there is no model 'gpt' that can do this; known: bytes, classifier, lstm"


@pytest.mark.parametrize("name", ["lstm", "bytes"])
def test_a_completion_equals_the_text_from_python(served: Served, name: str) -> None:
    completion = served.client.completions.create(
        model=name, prompt="the walls", max_tokens=12, seed=4, temperature=0.8, top_p=0.9
    )
    assert completion.object == "text_completion" and completion.model == name
    assert [choice.text for choice in completion.choices] == texts(
        name, "the walls", max_new=12, seed=4, temperature=0.8, top_p=0.9
    )
    count = len(small_run(name).task.encode("the walls"))
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens, completion.usage.total_tokens) == (
        count,
        12,
        count + 12,
    )
    assert completion.choices[0].finish_reason == "length"


def test_temperature_0_is_greedy_decoding_and_echo_repeats_the_prompt(served: Served) -> None:
    completion = served.client.completions.create(model="lstm", prompt="the", max_tokens=9, temperature=0, echo=True)
    assert completion.choices[0].text == "the" + texts("lstm", "the", max_new=9, method="greedy")[0]


def test_choices_of_several_prompts_are_numbered_consecutively(served: Served) -> None:
    completion = served.client.completions.create(model="lstm", prompt=["the", "she"], n=2, max_tokens=6, seed=1)
    expected = [
        one.text
        for row in small_run("lstm").ask("generate", ["the", "she"], max_new=6, seed=1, samples=2)
        for one in row
    ]
    assert [choice.index for choice in completion.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in completion.choices] == expected
    assert completion.usage.prompt_tokens == 6 and completion.usage.completion_tokens == 24


def test_a_prompt_may_be_tokens(served: Served) -> None:
    tokens = small_run("lstm").task.encode("the walls")
    by_text = served.client.completions.create(model="lstm", prompt="the walls", max_tokens=6, seed=1)
    for prompt in (tokens, [tokens]):
        completion = served.client.completions.create(model="lstm", prompt=prompt, max_tokens=6, seed=1)
        assert completion.choices[0].text == by_text.choices[0].text


def test_a_completion_has_16_random_tokens_by_default(served: Served) -> None:
    completions = [served.client.completions.create(model="lstm", prompt="the") for _ in range(3)]
    assert {one.usage.completion_tokens for one in completions} == {16}
    assert len({one.choices[0].text for one in completions}) > 1


def test_a_stream_has_the_same_text_and_usage(served: Served) -> None:
    whole = served.client.completions.create(model="lstm", prompt="the", max_tokens=20, seed=2)
    stream = served.client.completions.create(
        model="lstm", prompt="the", max_tokens=20, seed=2, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text and len(chunks) == 20
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 19 + ["length"]
    assert last.choices == [] and last.usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_events_of_a_stream_end_with_done(served: Served) -> None:
    body = json.dumps({"model": "lstm", "prompt": "the", "max_tokens": 3, "stream": True}).encode()
    request = urllib.request.Request(f"{served.address}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.read().decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""] and all(line.startswith("data: {") for line in lines[:-2])


def test_a_text_ends_before_its_stop(served: Served) -> None:
    whole = served.client.completions.create(model="lstm", prompt="the", max_tokens=60, seed=2).choices[0].text
    stop = whole[30:32]
    expected = whole[: whole.index(stop)]
    completion = served.client.completions.create(model="lstm", prompt="the", max_tokens=60, seed=2, stop=["%%", stop])
    assert completion.choices[0].text == expected and completion.choices[0].finish_reason == "stop"
    assert completion.usage.completion_tokens == len(expected) + 2
    stream = list(
        served.client.completions.create(model="lstm", prompt="the", max_tokens=60, seed=2, stop=stop, stream=True)
    )
    assert "".join(chunk.choices[0].text for chunk in stream) == expected
    assert stream[-1].choices[0].finish_reason == "stop"


def test_log_probs_are_those_of_the_model(served: Served) -> None:
    completion = served.client.completions.create(model="lstm", prompt="the", max_tokens=5, temperature=0, logprobs=3)
    logprobs = completion.choices[0].logprobs
    assert "".join(logprobs.tokens) == completion.choices[0].text and logprobs.text_offset == [0, 1, 2, 3, 4]
    for token, log_prob, alternatives in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        assert (
            len(alternatives) == 3
            and max(alternatives, key=alternatives.get) == token
            and math.isclose(alternatives[token], log_prob, abs_tol=1e-5)
        )
    [[own]] = small_run("lstm").ask("generate", ["the"], max_new=5, method="greedy", temperature=1.0)
    assert math.isclose(sum(logprobs.token_logprobs), own.log_prob, abs_tol=1e-3)


def test_a_chat_becomes_a_prompt_by_its_template(served: Served) -> None:
    messages: Any = [
        {"role": "user", "content": "the walls"},
        {"role": "assistant", "content": "were tall"},
        {"role": "user", "content": [{"type": "text", "text": "she "}, {"type": "text", "text": "went"}]},
    ]
    completion = served.client.chat.completions.create(
        model="lstm", messages=messages, max_completion_tokens=15, seed=5, user="me"
    )
    [expected] = texts("lstm", "the walls\nwere tall\nshe went\n", max_new=15, seed=5)
    assert completion.choices[0].message.content == expected and completion.choices[0].message.role == "assistant"
    stream = list(
        served.client.chat.completions.create(model="lstm", messages=messages, max_tokens=15, seed=5, stream=True)
    )
    assert stream[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == expected
    assert stream[-1].choices[0].finish_reason == "length"


def test_log_probs_of_a_chat_have_bytes_and_alternatives(served: Served) -> None:
    completion = served.client.chat.completions.create(
        model="bytes", messages=[{"role": "user", "content": "a"}], max_tokens=4, logprobs=True, top_logprobs=2, seed=1
    )
    logprobs = completion.choices[0].logprobs.content
    assert len(logprobs) == 4 and all(len(each.top_logprobs) == 2 and each.logprob <= 0 for each in logprobs)
    assert [bytes(each.bytes).decode() for each in logprobs] == [each.token for each in logprobs]


def test_embeddings_equal_the_vectors_from_python(served: Served) -> None:
    rows = small_run("classifier").ask("embed", ["a red fox", "she went in"])
    for form in ({}, {"encoding_format": "float"}):
        completion = served.client.embeddings.create(model="classifier", input=["a red fox", "she went in"], **form)
        for one, row in zip(completion.data, rows, strict=True):
            assert one.embedding == pytest.approx(row.tolist(), abs=1e-5)
        assert completion.usage.prompt_tokens == completion.usage.total_tokens == 6
    body = json.dumps({"model": "classifier", "input": "a red fox", "encoding_format": "base64"}).encode()
    request = urllib.request.Request(f"{served.address}/v1/embeddings", body, {"Content-Type": "application/json"})
    packed = b64decode(json.load(urllib.request.urlopen(request, timeout=30))["data"][0]["embedding"])
    assert struct.unpack(f"<{len(packed) // 4}f", packed) == pytest.approx(rows[0].tolist(), abs=1e-5)
    tokens = small_run("classifier").task.vectors()[1].tokenizer.encode("a red fox")
    assert served.client.embeddings.create(model="classifier", input=tokens).data[0].embedding == pytest.approx(
        rows[0].tolist(), abs=1e-5
    )


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    (
        "completions",
        {"prompt": "a", "best_of": 3},
        "best_of (3) is not supported here: set n, and choose among the texts",
    ),
    ("completions", {"prompt": "a", "suffix": "b"}, "suffix ('b') is not supported here"),
    ("completions", {"prompt": "a", "frequency_penalty": 0.5}, "frequency_penalty (0.5) is not supported here"),
    ("completions", {"prompt": "a", "max_tokns": 5}, "unknown field 'max_tokns'; did you mean 'max_tokens'?"),
    ("completions", {"prompt": "a", "max_tokens": 5000}, "max_new must be at most 4096 here, not 5000"),
    ("completions", {"prompt": "a" * 10_001}, "text 1 has 10,001 characters, but at most 10,000 are read here"),
    ("completions", {"prompt": "Ж"}, "the prompt has characters the model has never seen: 'Ж' (U+0416)"),
    ("completions", {"prompt": [999]}, "the prompt has the token 999, but the model's tokens are 0 to"),
    (
        "completions",
        {"prompt": [1] * 10_001},
        "the prompt has 10,001 tokens, but at most 10,000 are read here; send it in parts",
    ),
    ("embeddings", {"input": [999]}, "the input has the token 999, but the model's tokens are 0 to"),
    ("completions", {"prompt": []}, "prompt is an empty list; give at least one text, which may be empty"),
    ("completions", {"prompt": "a", "temperature": 2.5}, "temperature must be at most 2, not 2.5"),
    (
        "completions",
        {"prompt": "a", "temperature": 0, "n": 2},
        "n needs sampling, since with temperature 0 all texts are the same; ask for one, or raise the temperature",
    ),
    (
        "completions",
        {"prompt": "a", "top_p": 0},
        "top_p (0) leaves no token; set temperature to 0 for the most probable token at each step",
    ),
    (
        "completions",
        {"prompt": "a", "stop": ["a", "b", "c", "d", "e"]},
        "stop takes one text, or a list of up to 4, none of them empty",
    ),
    ("completions", {"prompt": "a", "stop": ""}, "stop takes one text, or a list of up to 4"),
    (
        "completions",
        {"prompt": "a", "echo": True, "logprobs": 1},
        "logprobs of an echoed prompt are not supported; leave echo or logprobs out",
    ),
    ("chat/completions", {"messages": []}, "messages is empty; give at least one"),
    ("chat/completions", {"messages": [{"content": "a"}]}, "message 1 has no role; give it one, such as user"),
    (
        "chat/completions",
        {"messages": [{"role": "system", "content": "a"}]},
        "message 1 has the role 'system', which this model's chat template does not have; known: ",
    ),
    (
        "chat/completions",
        {"messages": [{"role": "user"}]},
        "message 1: content must be a text or a list of parts, not None",
    ),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        'message 1 has a part that is not text; use {"type": "text", "text": ...}',
    ),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]},
        "message 1 has 'tool_calls', which is not supported here; a message has only a role and content",
    ),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2},
        "top_logprobs needs logprobs; set it to true",
    ),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": "a"}], "tools": [{}]},
        "tools ([{}]) is not supported here",
    ),
    ("embeddings", {"input": []}, "input is empty; give at least one text"),
    ("embeddings", {"input": "a", "encoding_format": "int8"}, "encoding_format must be float or base64, not 'int8'"),
    (
        "embeddings",
        {"input": "a", "dimensions": 4},
        "dimensions (4) is not supported here: vectors have the width of the model; leave it out",
    ),
]


@pytest.mark.parametrize(
    ("route", "body", "sentence"), MISTAKES, ids=[f"{route} {sentence}"[:60] for route, _, sentence in MISTAKES]
)
def test_mistakes_are_errors_that_the_client_understands(
    served: Served, route: str, body: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        served.client.post(f"/{route}", body={"model": "lstm", **body}, cast_to=object)
    assert error.value.body is not None and sentence in error.value.body["message"], error.value.body
    assert error.value.type == "invalid_request_error"


def test_unsupported_fields_accept_their_neutral_values(served: Served) -> None:
    neutral = {name: values[0] for name, (values, _) in NEUTRAL.items() if values}
    body = {
        "model": "lstm",
        "messages": [{"role": "user", "content": "the"}],
        "max_tokens": 3,
        "seed": 1,
        "user": "me",
        **neutral,
    }
    completion: Any = served.client.post("/chat/completions", body=body, cast_to=object)
    assert completion["choices"][0]["message"]["content"] == texts("lstm", "the\n", max_new=3, seed=1)[0]


def test_a_model_without_the_route_is_rejected(served: Served) -> None:
    with pytest.raises(
        openai.NotFoundError, match="there is no model 'classifier' that can do this; known: bytes, lstm"
    ):
        served.client.completions.create(model="classifier", prompt="a")
    with pytest.raises(openai.BadRequestError, match="model is missing; known: bytes, lstm"):
        served.client.post("/completions", body={"prompt": "a"}, cast_to=object)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("nothing", b"{}", 404),
        ("completions", None, 405),
        ("models", b"{}", 405),
        ("completions", b"{", 400),
        ("completions", b"x" * 1_000_001, 413),
    ],
)
def test_every_error_below_v1_has_the_same_form(served: Served, path: str, body: bytes | None, status: int) -> None:
    request = urllib.request.Request(f"{served.address}/v1/{path}", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    details = json.load(error.value)["error"]
    assert error.value.code == status and details["message"] and details["type"] == "invalid_request_error"


def test_a_full_queue_is_a_server_error_with_retry_after(served: Served) -> None:
    writer = next(iter(served.service.writers.values()))
    before, writer.queue = writer.queue, 0
    try:
        with pytest.raises(openai.InternalServerError) as error:
            served.client.completions.create(model=writer_name(served, writer), prompt="a")
    finally:
        writer.queue = before
    assert error.value.status_code == 503 and error.value.response.headers["retry-after"] == "1"
    assert error.value.type == "server_error" and "0 requests are waiting already" in error.value.body["message"]


def writer_name(served: Served, writer: Any) -> str:
    return next(
        name for name, run in served.service.runs.items() if served.service.writers.get((id(run), "generate")) is writer
    )


def test_closing_a_stream_ends_its_work(served: Served) -> None:
    stream = served.client.completions.create(model="lstm", prompt="the", max_tokens=4096, n=2, stream=True)
    next(iter(stream))
    writer = served.service.writers[id(served.service.runs["lstm"]), "generate"]
    assert writer.streams == 2
    stream.close()
    while writer.open or not writer.batch.is_idle:
        threading.Event().wait(0.01)
    assert writer.batch.num_rows == 0 and writer.streams == 0


def test_a_page_of_another_site_is_rejected(served: Served) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="a page of another site sent this"):
        served.client.models.list(extra_headers={"Origin": "http://evil.example"})


def test_a_run_with_unsupported_decoding_settings_is_rejected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run("lstm")
    decoding = run.config.decoding.model_copy(update={"no_repeat_ngram": 2})
    monkeypatch.setattr(run, "config", run.config.model_copy(update={"decoding": decoding}))
    with pytest.raises(
        openai.BadRequestError,
        match="this run's settings in the section decoding of its config.json do not work with this route; use"
        " `clew generate`, or the route /generate",
    ):
        served.client.completions.create(model="lstm", prompt="a")


def test_requests_are_counted_by_model_and_route(served: Served) -> None:
    served.client.completions.create(model="lstm", prompt="the", max_tokens=1)
    with urllib.request.urlopen(f"{served.address}/metrics", timeout=30) as response:
        text = response.read().decode()
    assert 'clew_requests_total{run="lstm",verb="completions",status="200"}' in text
    assert 'clew_request_seconds_count{run="lstm",verb="completions"}' in text


class Letters:
    """A tokenizer whose tokens are characters."""

    def add(self, token: int) -> str:
        return chr(token)

    def rest(self) -> str:
        return ""


def test_text_that_may_begin_a_stop_is_held_back() -> None:
    from clew.decoding.continuous import Row, RowRequest, Written

    row = Row(RowRequest([0], 9))

    def written(text: str, ended: str | None = None) -> Written:
        return Written(row, [*map(ord, text)], [-1.0] * len(text), [-1.0] * len(text), [], ended)

    growing = Growing(Letters(), ["STOP", "TO"])
    assert growing.add(written("aS"))[0] == "a"
    assert growing.add(written("S"))[0] == "S"  # the first S cannot begin a stop any more, the second can
    text, tokens, finish = growing.add(written("TOP"))
    assert (text, finish) == ("S", "stop") and [token.offset for token in tokens] == [2]
    assert first_stop("abcSTOP", ["STOP", "bc"]) == 1 and first_stop("abc", ["d"]) is None
    assert held_back("abST", ["STOP", "b"]) == 2 and held_back("ab", []) == 0
    growing = Growing(Letters(), ["xyz"])
    assert growing.add(written("axy", "length"))[0] == "axy"  # nothing is held back at the end


def test_a_message_is_not_interpreted_as_a_template() -> None:
    template = ChatTemplate()
    prompt = template.prompt(
        [("system", "Be {content}."), ("user", "{{ 7 * 7 }} {% x %} {content}"), ("developer", "ok")]
    )
    assert prompt == "Be {content}.\n\nUser: {{ 7 * 7 }} {% x %} {content}\nok\n\nAssistant:"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{% for m in messages %}{{ m }}{% endfor %}", "is not JSON; a chat template is a JSON object such as"),
        ("{% for m in messages %}", "a Jinja template is a program, which is not run here"),
        ("[1]", "a chat template must be an object with fields, not [1]"),
        ('{"user": "hello"}', "user has {content} 0 times, but needs it once, where the message goes"),
        ('{"usr": "{content}"}', "unknown field 'usr'; did you mean 'user'?"),
        ('"' + "a" * 100_001 + '"', "a chat template must have at most 100,000"),
    ],
)
def test_invalid_templates_are_rejected(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "template.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_template(path)
    assert sentence in str(error.value)
    with pytest.raises(UserError, match="cannot be read as a chat template"):
        read_template(tmp_path / "none.json")


def test_a_run_can_have_its_own_template(tmp_path: Path) -> None:
    from clew.serving.openai.chat_templates import FILE, template_for

    assert template_for(tmp_path, None) == ChatTemplate()
    (tmp_path / FILE).write_text('{"user": "Q: {content}\\n", "answer": "A:", "stop": ["\\nQ:"]}', encoding="utf-8")
    own = template_for(tmp_path, None)
    assert own.prompt([("user", "why?")]) == "Q: why?\nA:" and own.stop == ["\nQ:"]
    other = tmp_path / "other.json"
    other.write_text('{"answer": "B:"}', encoding="utf-8")
    assert template_for(tmp_path, other).answer == "B:"
