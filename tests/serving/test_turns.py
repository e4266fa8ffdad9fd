"""Requests of all sizes at once: too large ones are rejected, small ones overtake, and answers stay the same."""

import asyncio
from typing import Any

import httpx
import pytest

from clew.core.errors import UserError
from clew.serving.calls import call_of
from clew.serving.service import Service
from tests.instruments.small_runs import small_run
from tests.serving.conftest import Make

TOO_MUCH: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "gpt",
        "generate",
        {"text": "a", "max_new": 4096, "samples": 32},
        "32 texts with 1 beam may generate 131,072 tokens",
    ),
    (
        "gpt",
        "generate",
        {"text": "a", "max_new": 4096, "beams": 64},
        "1 text with 64 beams may generate 262,144 tokens",
    ),
    (
        "gpt",
        "generate",
        {"text": "a", "max_new": 4096, "n_best": 64},
        "1 text with 64 beams may generate 262,144 tokens",
    ),
    (
        "lstm",
        "generate",
        {"texts": ["a"] * 256, "max_new": 4096},
        "256 texts with 1 beam may generate 1,048,576 tokens",
    ),
    (
        "transformer",
        "translate",
        {"texts": ["a"] * 100, "max_new": 100, "beams": 64},
        "100 texts with 64 beams may generate 640,000 tokens",
    ),
    ("parser", "parse", {"text": "a " * 1000, "beams": 64}, "1 text with 64 beams may generate 256,640 tokens"),
    (
        "lstm",
        "classify",
        {"texts": ["a"] * 256, "choices": ["x" * 9, *map(str, range(3000))]},
        "256 texts with 3,001 choices each are",
    ),
    (
        "lstm",
        "classify",
        {"texts": ["a"] * 256, "choices": ["x", "y"], "template": "{text} {choice}" + "z" * 9000},
        "characters to read",
    ),
]


@pytest.mark.parametrize(("name", "verb", "body", "sentence"), TOO_MUCH)
def test_requests_that_would_take_minutes_are_rejected_with_the_limit(
    name: str, verb: str, body: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        call_of(small_run(name), verb, body)
    assert (
        "a request may generate at most 100,000 (texts x samples x max_new x beams); ask for less, or send several"
        " requests"
        in str(caught.value)
        or ("a request may have at most 2,560,000; send several requests" in str(caught.value))
    )


@pytest.mark.parametrize(
    ("name", "verb", "body"),
    [
        ("gpt", "generate", {"text": "a", "max_new": 4096, "samples": 24}),
        ("gpt", "generate", {"text": "a", "max_new": 1500, "beams": 64}),
        ("lstm", "generate", {"texts": ["a"] * 256}),
        ("parser", "parse", {"texts": ["a b c"] * 256}),
        ("lstm", "classify", {"texts": ["a"] * 256, "choices": "good,bad"}),
        ("bert", "fill", {"texts": ["a " * 1000] * 256}),
    ],
)
def test_requests_within_the_limit_are_accepted(name: str, verb: str, body: dict[str, Any]) -> None:
    assert call_of(small_run(name), verb, body).rows


def test_one_text_may_use_the_settings_of_the_run() -> None:
    run = small_run("lstm")
    wide = run.config.decoding.model_copy(update={"max_new": 60_000, "method": "beam"})
    large = type(run)(run.folder, run.config.model_copy(update={"decoding": wide}), run.vocabularies, run.task)
    assert call_of(large, "generate", {"text": "a"}).options.max_new == 60_000
    with pytest.raises(
        UserError, match="2 texts with 4 beams may generate 480,000 tokens, but a request may generate at most 240,000"
    ):
        call_of(large, "generate", {"texts": ["a", "b"]})


def long_and_short(
    service: Service, long: tuple[str, Any], short: list[tuple[str, Any]]
) -> tuple[Any, list[Any], bool]:
    """The answers to a long request and to short ones sent while it runs, and whether the short ones came first."""

    async def both() -> tuple[Any, list[Any], bool]:
        transport = httpx.ASGITransport(app=service.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            first = asyncio.ensure_future(client.post(long[0], json=long[1]))
            while not service.worker.running:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            responses = [await client.post(path, json=body) for path, body in short]
            is_under_way = not first.done()
            return (await first).json(), [each.json() for each in responses], is_under_way

    return asyncio.run(both())


@pytest.mark.parametrize("long", [{"max_new": 700, "samples": 8}, {"max_new": 900, "method": "beam", "beams": 32}])
def test_short_requests_overtake_a_long_one_without_changing_answers(make: Make, long: dict[str, Any]) -> None:
    service, run = make("lstm"), small_run("lstm")
    short = [{"text": "she", "max_new": 5, "seed": 1}, {"text": "the", "max_new": 9, "method": "beam", "beams": 3}]
    first, short_answers, is_under_way = long_and_short(
        service, ("/generate", {"text": "the", **long}), [("/generate", body) for body in short]
    )
    assert is_under_way
    alone = [one.text for row in run.ask("generate", ["the"], **long) for one in row]
    assert [one["text"] for one in first["answers"]] == alone
    for body, answer in zip(short, short_answers, strict=True):
        text = body.pop("text")
        assert [one["text"] for one in answer["answers"]] == [
            one.text for row in run.ask("generate", [text], **body) for one in row
        ]


@pytest.mark.slow
def test_requests_of_another_verb_overtake_too(make: Make) -> None:
    service = make("lstm")
    body = {"text": "the", "choices": ["walls", "door"]}
    _, (answer,), is_under_way = long_and_short(
        service, ("/generate", {"text": "the", "max_new": 1500, "samples": 8}), [("/classify", body)]
    )
    assert is_under_way
    (alone,) = small_run("lstm").ask("classify", ["the"], choices=["walls", "door"])
    assert answer["answers"][0]["label"] == alone.label


@pytest.mark.slow
def test_requests_of_every_size_are_answered_like_single_ones(make: Make) -> None:
    service = make("lstm", "gpt", "transformer")
    sizes = [1, 2, 7, 30, 60, 240, 500]
    requests = [
        (f"/{name}/generate", {"text": "the", "max_new": size, "seed": size})
        for size in sizes
        for name in ("lstm", "gpt")
    ]
    requests += [
        ("/transformer/translate", {"text": "a red fox", "max_new": size, "beams": 1 + size % 5}) for size in sizes
    ]

    async def everyone() -> list[Any]:
        transport = httpx.ASGITransport(app=service.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            tasks = []
            for path, body in reversed(requests):
                tasks.append(asyncio.ensure_future(client.post(path, json=body)))
                await asyncio.sleep(0.01)
            return [response.json() for response in await asyncio.gather(*tasks)][::-1]

    for (path, body), answer in zip(requests, asyncio.run(everyone()), strict=True):
        _, name, verb = path.split("/")
        options = {key: value for key, value in body.items() if key != "text"}
        alone = [one.text for row in small_run(name).ask(verb, [body["text"]], **options) for one in row]
        texts = [one.get("text", one.get("target")) for one in answer["answers"]]
        assert texts == alone, (path, body)


def test_requests_with_equal_options_are_answered_together(make: Make) -> None:
    service = make("lstm", batch=8)
    batch_sizes: list[int] = []
    service.batcher.observe = lambda call, rows, answers: batch_sizes.append(len(rows))
    body = {"text": "the", "max_new": 200, "repetition_penalty": 1.1}  # an option that running batches do not support

    async def everyone() -> None:
        transport = httpx.ASGITransport(app=service.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            first = asyncio.ensure_future(client.post("/generate", json={**body, "text": None, "texts": ["the"] * 8}))
            while not service.batcher.running:
                await asyncio.sleep(0.001)
            await asyncio.gather(first, *(client.post("/generate", json=body) for _ in range(8)))

    asyncio.run(everyone())
    assert batch_sizes == [8, 8]
