"""Models, completions, chats and embeddings for clients of OpenAI's API. Knows runs only by the capabilities of their
uses.

GET  /v1/models             the runs that support one of the other routes
POST /v1/completions        continuations of prompts, by runs whose rows can join a running batch
POST /v1/chat/completions   the same for the messages of a chat, turned into a prompt by a template
POST /v1/embeddings         a vector for each text, by runs that compute one
"""

import asyncio
import base64
import json
import secrets
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from clew.core.errors import UserError, few_of, named
from clew.runs.loaded import Run
from clew.serving.answering import JSON, json_body, while_connected
from clew.serving.calls import Call, call_of
from clew.serving.flows import EVENTS, GONE, Flow
from clew.serving.mistakes import OPENAI, error_object
from clew.serving.openai.chat_templates import ChatTemplate, template_for
from clew.serving.openai.choices import Choices, Piece, TokenInfo, chat_log_probs, completion_log_probs
from clew.serving.openai.requests import COMPLETION_TOKENS, Chat, Completion, Embeddings, Writing, read_request
from clew.serving.worker import as_exception
from clew.serving.writing import Writer
from clew.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from clew.serving.service import Service

LARGEST_SEED = 2**31
MODELS = f"{OPENAI}models/"
"""The prefix of the address of one model."""


class NoModel(UserError):
    """No suitable run has the requested name."""


class Generation(NamedTuple):
    """A request for generated texts: the model, the call, its choices, and the echoed prompts."""

    kind: str
    """`text_completion` or `chat.completion`."""
    model: str
    call: Call
    choices: Choices
    echoes: list[str]
    """For each prompt, the text sent before its choices."""
    request: Writing
    log_probs: int | None
    """The number of alternatives to send with each token; None: no log-probabilities."""


class OpenAIRoutes:
    def __init__(self, service: "Service", template: Path | None):
        self.service = service
        self.writing = {
            name: verb for name, run in service.runs.items() if (verb := verb_with(run, "joins")) is not None
        }
        self.embedding = {
            name: verb for name, run in service.runs.items() if (verb := verb_with(run, "vector")) is not None
        }
        self.templates: dict[str, ChatTemplate] = {
            name: template_for(service.runs[name].folder, template) for name in self.writing
        }

    @property
    def paths(self) -> list[str]:
        """The routes that at least one run supports."""
        names = [
            *(("completions", "chat/completions") if self.writing else ()),
            *(("embeddings",) if self.embedding else ()),
        ]
        return [f"{OPENAI}{name}" for name in (*names, *(("models",) if names else ()))]

    def endpoints(self) -> dict[tuple[str, str], Callable[[Request], Awaitable[Response]]]:
        """The endpoints by method and path."""
        handlers: dict[str, Callable[..., Any]] = {
            "completions": self.completions,
            "chat/completions": self.chats,
            "embeddings": self.embeddings,
        }
        return {
            ("GET", f"{OPENAI}models"): self.models,
            **{("POST", f"{OPENAI}{name}"): self.route(name, answer) for name, answer in handlers.items()},
        }

    def route(self, name: str, answer: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body: dict[str, Any] = {}

            async def answered() -> Response:
                try:
                    body.update(await json_body(request))
                    response: Response = await answer(request, body)
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    return self.error_response(as_exception(error))
                return response

            return await self.service.counted(lambda: self.named(body), name, answered())

        return endpoint

    def named(self, body: Mapping[str, Any]) -> str:
        """The requested run's name for the metrics; empty if there is no such run."""
        name = body.get("model")
        return name if isinstance(name, str) and name in self.service.runs else ""

    async def models(self, request: Request) -> Response:
        names, path = sorted({*self.writing, *self.embedding}), request.scope["path"]
        if path.startswith(MODELS):
            name = path.removeprefix(MODELS)
            return JSON(self.model(name)) if name in names else self.error_response(no_model(name, names))
        return JSON({"object": "list", "data": [self.model(name) for name in names]})

    def model(self, name: str) -> dict[str, Any]:
        folder = self.service.runs[name].folder
        created = int(folder.stat().st_mtime) if folder.exists() else 0
        return {"id": name, "object": "model", "created": created, "owned_by": "clew"}

    def run_of(self, body: Mapping[str, Any], among: Mapping[str, str]) -> tuple[str, Run, str]:
        name = body.get("model")
        if not isinstance(name, str):
            raise UserError(f"model is missing; known: {few_of(sorted(among)) or 'none that can do this'}")
        if name not in among:
            raise no_model(name, sorted(among))
        return name, self.service.runs[name], among[name]

    # Texts

    async def completions(self, request: Request, body: Mapping[str, Any]) -> Response:
        name, run, verb = self.run_of(body, self.writing)
        fields: Completion = read_request(Completion, body)
        if fields.echo and fields.logprobs is not None:
            raise UserError("logprobs of an echoed prompt are not supported; leave echo or logprobs out")
        prompts = fields.prompts
        texts = [self.text_of(run.task.tokenizer, prompt, "the prompt") for prompt in prompts]
        most = COMPLETION_TOKENS if fields.max_tokens is None else fields.max_tokens
        call = self.call(run, verb, texts, fields, most)
        choices = self.choices(call, prompts, fields.stops, fields.logprobs, fields)
        echoes = texts if fields.echo else [""] * len(texts)
        return await self.respond(
            request, Generation("text_completion", name, call, choices, echoes, fields, fields.logprobs)
        )

    async def chats(self, request: Request, body: Mapping[str, Any]) -> Response:
        name, run, verb = self.run_of(body, self.writing)
        fields: Chat = read_request(Chat, body)
        if fields.top_logprobs is not None and not fields.logprobs:
            raise UserError("top_logprobs needs logprobs; set it to true")
        template = self.templates[name]
        call = self.call(run, verb, [fields.prompt(template)], fields, fields.most)
        alternatives = (fields.top_logprobs or 0) if fields.logprobs else None
        prompts = [str(row.text) for row in call.rows[:1]]
        choices = self.choices(call, prompts, [*fields.stops, *template.stop], alternatives, fields)
        return await self.respond(
            request, Generation("chat.completion", name, call, choices, [""], fields, alternatives)
        )

    def call(self, run: Run, verb: str, texts: list[str], fields: Writing, most: int | None) -> Call:
        """The call of our own route, with its limits. Without a seed, every answer is different."""
        seed = {"seed": secrets.randbelow(LARGEST_SEED)} if fields.seed is None else {}
        call = call_of(run, verb, {"texts": texts, **fields.options(most), **seed}, self.service.longest)
        if not call.joins:
            raise UserError(
                "this run's settings in the section decoding of its config.json do not work with this route; use"
                " `clew generate`, or the route /generate"
            )
        return call

    def choices(
        self,
        call: Call,
        prompts: Sequence[str | list[int]],
        stops: Sequence[str],
        alternatives: int | None,
        fields: Writing,
    ) -> Choices:
        assert call.use.joins is not None
        return Choices(
            call.use.joins, call, prompts, stops=stops, alternatives=alternatives or 0, streams=bool(fields.stream)
        )

    def text_of(self, tokenizer: Tokenizer, prompt: str | list[int], what: str) -> str:
        """A prompt as text; tokens are decoded."""
        if isinstance(prompt, str):
            return prompt
        if len(prompt) > self.service.longest:
            raise UserError(
                f"{what} has {len(prompt):,} tokens, but at most {self.service.longest:,} are read here; send it in"
                " parts"
            )
        if unknown_tokens := [token for token in prompt if not 0 <= token < tokenizer.vocabulary]:
            raise UserError(
                f"{what} has the token {unknown_tokens[0]}, but the model's tokens are 0 to {tokenizer.vocabulary - 1}"
            )
        return tokenizer.decode(prompt)

    def writer(self, call: Call) -> Writer:
        return self.service.writers[id(call.run), call.verb]

    async def respond(self, request: Request, generation: Generation) -> Response:
        call, choices, is_stream = generation.call, generation.choices, bool(generation.request.stream)
        outputs = self.writer(call).outputs(call, choices, is_stream=is_stream)
        pieces: list[Piece] = await while_connected(request, anext(outputs))
        self.service.observe(call, call.rows[:: call.samples], None)
        if is_stream:
            return EventStream(generation, pieces, outputs, self.service.batcher.seconds, self.error_response)
        await outputs.aclose()
        return JSON(complete(generation, pieces))

    # Vectors

    async def embeddings(self, request: Request, body: Mapping[str, Any]) -> Response:
        name, run, verb = self.run_of(body, self.embedding)
        fields: Embeddings = read_request(Embeddings, body)
        is_base64 = fields.is_base64
        use = run.uses[verb]
        reader = run.task.vectors()[1]
        texts = [self.text_of(reader.tokenizer, text_input, "the input") for text_input in fields.inputs]
        call = call_of(run, verb, {"texts": texts}, self.service.longest)
        answers = await while_connected(request, self.service.batcher.answers(call))
        assert use.vector is not None and use.watch is not None
        watch = use.watch
        count = await self.service.worker.do(lambda: sum(len(watch.tokens(run.task, row)[0]) for row in call.rows))
        vectors = [use.vector(answer) for answer in answers]
        data = [
            {"object": "embedding", "index": index, "embedding": packed(vector) if is_base64 else vector}
            for index, vector in enumerate(vectors)
        ]
        return JSON(
            {"object": "list", "data": data, "model": name, "usage": {"prompt_tokens": count, "total_tokens": count}}
        )

    # Errors

    def error_response(self, error: Exception) -> JSON:
        """Return the error response of our own routes, in the form that these clients expect."""
        if isinstance(error, NoModel):
            return JSON(error_object(OPENAI, 404, str(error), "model_not_found"), 404)
        own = self.service.error_response(error)
        sentence = json.loads(bytes(own.body))["error"]
        status = 400 if own.status_code == GONE else own.status_code
        response = JSON(error_object(OPENAI, status, sentence), own.status_code)
        if "retry-after" in own.headers:
            response.headers["retry-after"] = own.headers["retry-after"]
        return response


class EventStream(Flow):
    """Pieces of text as server-sent events in the form of chunks, ended by [DONE]."""

    def __init__(
        self,
        generation: Generation,
        first: list[Piece],
        outputs: AsyncGenerator[Any, None],
        seconds: float,
        error_response: Callable[[Exception], JSON],
    ):
        super().__init__(EVENTS, seconds)
        self.generation = generation
        self.first = first
        self.outputs = outputs
        self.error_response = error_response

    async def lines(self) -> AsyncGenerator[str, None]:
        generation = self.generation
        options = generation.request.stream_options
        with_usage = options is not None and options.include_usage
        head = {**head_of(generation, chunk=True), **({"usage": None} if with_usage else {})}
        try:
            async with aclosing(self.outputs):
                for choice in first_choices(generation):
                    yield event({**head, "choices": [choice]})
                for piece in self.first:
                    yield event({**head, "choices": [chunk_of(generation, piece)]})
                async for pieces in self.outputs:
                    for piece in pieces:
                        yield event({**head, "choices": [chunk_of(generation, piece)]})
            if with_usage:
                yield event({**head, "choices": [], "usage": usage_of(generation.choices)})
            yield "data: [DONE]\n\n"
        except Exception as error:
            response = self.error_response(error)
            self.status = response.status_code
            yield f"data: {bytes(response.body).decode()}\n\n"


def verb_with(run: Run, part: str) -> str | None:
    """The first of a run's verbs whose use has a given part."""
    return next((verb for verb, use in run.uses.items() if getattr(use, part) is not None), None)


def no_model(name: str, known: Sequence[str]) -> NoModel:
    return NoModel(f"there is no model {named(name)} that can do this; known: {few_of(list(known)) or 'none'}")


def event(fields: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(fields, separators=(',', ':'))}\n\n"


def packed(vector: Sequence[float]) -> str:
    """The vector as little-endian float32 in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def head_of(generation: Generation, *, chunk: bool) -> dict[str, Any]:
    is_chat = generation.kind == "chat.completion"
    return {
        "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{secrets.token_hex(12)}",
        "object": "chat.completion.chunk" if is_chat and chunk else generation.kind,
        "created": int(time.time()),
        "model": generation.model,
    }


def usage_of(choices: Choices) -> dict[str, int]:
    return {
        "prompt_tokens": choices.num_read,
        "completion_tokens": choices.num_written,
        "total_tokens": choices.num_read + choices.num_written,
    }


def first_choices(generation: Generation) -> list[dict[str, Any]]:
    """The choices sent before the first piece of each text: a role, or the echoed prompt."""
    if generation.kind == "chat.completion":
        role = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return [{"index": index, **role} for index in range(generation.choices.count)]
    echoes = [generation.echoes[generation.choices.prompt(index)[0]] for index in range(generation.choices.count)]
    return [
        {"index": index, "text": echo, "logprobs": None, "finish_reason": None}
        for index, echo in enumerate(echoes)
        if echo
    ]


def chunk_of(generation: Generation, piece: Piece) -> dict[str, Any]:
    fields = {"index": piece.index, "logprobs": log_probs_of(generation, piece.tokens), "finish_reason": piece.finish}
    if generation.kind == "chat.completion":
        return {**fields, "delta": {"content": piece.text} if piece.text else {}}
    return {**fields, "text": piece.text}


def complete(generation: Generation, pieces: Sequence[Piece]) -> dict[str, Any]:
    choices = []
    for index in range(generation.choices.count):
        of_choice = [piece for piece in pieces if piece.index == index]
        text = "".join(piece.text for piece in of_choice)
        tokens = [token for piece in of_choice for token in piece.tokens]
        fields = {"index": index, "logprobs": log_probs_of(generation, tokens), "finish_reason": of_choice[-1].finish}
        if generation.kind == "chat.completion":
            choices.append({**fields, "message": {"role": "assistant", "content": text, "refusal": None}})
        else:
            choices.append({**fields, "text": generation.echoes[generation.choices.prompt(index)[0]] + text})
    return {**head_of(generation, chunk=False), "choices": choices, "usage": usage_of(generation.choices)}


def log_probs_of(generation: Generation, tokens: Sequence[TokenInfo]) -> dict[str, Any] | None:
    if generation.log_probs is None:
        return None
    tokenizer = generation.call.run.task.tokenizer
    if generation.kind == "chat.completion":
        return chat_log_probs(tokenizer, tokens, generation.log_probs)
    return completion_log_probs(tokenizer, tokens, 0)
