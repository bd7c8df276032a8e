"""Protects an engine with its key, because other users of the host can reach its port, too.

Drafthouse starts an engine with this file's copy on PYTHONPATH and a new key in KEY. Python runs it first; it waits for
uvicorn, the server in vLLM, SGLang and TensorRT-LLM, and has it refuse every request without the key: their own keys
leave pages open, or show in the list of processes. Standard library only, for any Python.
"""

from __future__ import annotations

import hmac
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

KEY = "ENGINE_KEY_OF_DRAFTHOUSE"
_SERVERS_MODULE = "uvicorn.config"


class OnlyWithKey:
    """An ASGI application that answers 401 unless a request has the key."""

    def __init__(self, app: Any, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or self._has_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    def _has_key(self, scope: Any) -> bool:
        given = (value for name, value in scope["headers"] if name == b"authorization")
        return any(hmac.compare_digest(value, self._expected) for value in given)


class _WaitsForTheServer:
    """A module finder that adds the guard to uvicorn's configuration when that is imported."""

    def __init__(self, key: str) -> None:
        self._key = key

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _SERVERS_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loads = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                loads(module)
                _guard(module.Config, self._key)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _guard(config: Any, key: str) -> None:
    loads = config.load

    def load(self: Any) -> None:
        loads(self)
        self.loaded_app = OnlyWithKey(self.loaded_app, key)

    config.load = load


def _run_the_other() -> None:
    """Run the environment's own sitecustomize, which this file hides."""
    here = os.path.realpath(os.path.dirname(__file__))
    others = [folder for folder in sys.path if os.path.realpath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get(KEY):
        sys.meta_path.insert(0, _WaitsForTheServer(os.environ[KEY]))
    _run_the_other()
