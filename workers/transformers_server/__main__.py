"""An OpenAI-compatible server around transformers' assisted generation. It runs in an engine's own environment.

    python workers/transformers_server --model DIR [--assistant-model DIR | --prompt-lookup]
        [--num-speculative-tokens K] [--host 127.0.0.1] [--port 8000] [--served-model-name NAME]

That environment needs torch, transformers, aiohttp and pydantic (vLLM's has them all). The modules here import one
another by plain name, and nothing else of Drafthouse.
"""

from __future__ import annotations

import gc
import logging
import socket
import sys

from aiohttp import web
from errors import StartError
from options import Options, parse


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = parse(sys.argv[1:])
    try:
        _serve(options, _reserve(options))
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _serve(options: Options, listener: socket.socket) -> None:
    from loading import load  # noqa: PLC0415 - takes seconds, which a wrong option need not wait for
    from routes import application  # noqa: PLC0415 - likewise

    models = load(options)
    gc.freeze()  # a full collection would stop the measured server for as long as it looks through the models
    web.run_app(
        application(options, models),
        sock=listener,
        print=None,
        access_log=None,
        handler_cancellation=True,  # a disconnected client cancels its handler and so its generation
        shutdown_timeout=1.0,
    )


def _reserve(options: Options) -> socket.socket:
    """Take the port before minutes of loading. Nobody can connect until the models are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise StartError(f"cannot listen on {options.host}:{options.port}: {error}") from error
    return listener


if __name__ == "__main__":
    sys.exit(main())
