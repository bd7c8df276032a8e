"""The server's endpoints."""

from __future__ import annotations

import hmac
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from counters import Counters
from decoding import Decoder
from errors import Refusal
from generation_queue import GenerationQueue
from loading import Models, effective_configuration
from options import Options
from replies import CHAT, COMPLETION, Replies
from request_parsing import read_chat, read_completion

_LOG = logging.getLogger("transformers_server")
_MAX_BODY_BYTES = 64 * 2**20
#: Without this variable anybody may send requests.
_KEY = "ENGINE_KEY_OF_DRAFTHOUSE"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(options: Options, models: Models) -> web.Application:
    app = web.Application(middlewares=[_only_with(os.environ.get(_KEY)), _refusals], client_max_size=_MAX_BODY_BYTES)
    server = _Server(options, models)
    app.add_routes(
        [
            web.get("/health", server.health),
            web.get("/version", server.version),
            web.get("/metrics", server.metrics),
            web.get("/v1/models", server.models),
            web.post("/v1/completions", server.completions),
            web.post("/v1/chat/completions", server.chat),
        ]
    )
    app.on_startup.append(server.started)
    return app


class _Server:
    def __init__(self, options: Options, models: Models) -> None:
        self._options, self._models = options, models
        self._counters = Counters(options.num_speculative_tokens)
        self._queue = GenerationQueue(Decoder(options, models, self._counters).decode)
        self._replies = Replies(options, models, self._queue, self._counters)
        self._created = int(time.time())

    async def started(self, _: web.Application) -> None:
        options = self._options
        _LOG.info("serving %s on http://%s:%s", options.served_model_name, options.host, options.port)

    async def health(self, _: web.Request) -> web.StreamResponse:
        return web.Response()

    async def version(self, _: web.Request) -> web.StreamResponse:
        configuration = effective_configuration(self._options, self._models)
        return web.json_response({"version": configuration["transformers"], **configuration})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=self._counters.text(self._queue.running, self._queue.waiting))

    async def models(self, _: web.Request) -> web.StreamResponse:
        model = {
            "id": self._options.served_model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "transformers",
            "root": self._options.model,
            "max_model_len": self._models.context_tokens,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        params = read_completion(await _json(request), self._models, self._options.served_model_name)
        return await self._replies.reply(request, params, COMPLETION)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        params = read_chat(await _json(request), self._models, self._options.served_model_name)
        return await self._replies.reply(request, params, CHAT)


async def _json(request: web.Request) -> object:
    try:
        return json.loads(await request.read())
    except ValueError as error:  # bad UTF-8 counts as such, too
        raise Refusal(400, f"the body is not JSON: {error}") from error


def _only_with(key: str | None) -> Callable[[web.Request, _Handler], Awaitable[web.StreamResponse]]:
    """Refuse requests without the key: other users of the host can reach the port, too."""
    expected = f"Bearer {key}".encode()

    @web.middleware
    async def check(request: web.Request, handler: _Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")  # as aiohttp decoded it
        if key is None or hmac.compare_digest(given, expected):
            return await handler(request)
        return web.Response(status=401)

    return check


@web.middleware
async def _refusals(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        kind = "BadRequestError" if refusal.status < 500 else "InternalServerError"
        error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.status}
        return web.json_response({"error": error}, status=refusal.status)
