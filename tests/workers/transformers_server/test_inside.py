"""Parts of the server where it runs, in one process for all tests, because importing them takes five seconds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.workers.transformers_server.servers import SCRIPT, TARGET, ended

pytestmark = pytest.mark.engine

#: With the target's real tokenizer, to which each character is several tokens.
WHOLE = " na\u00efve \U0001f642\u65e5\u672c\n"
PROGRAM = f"""
import asyncio, json, os, sys
sys.path.insert(0, {str(SCRIPT)!r})
os.environ["ENGINE_KEY_OF_DRAFTHOUSE"] = "the key"
from aiohttp.test_utils import TestClient, TestServer
from options import parse
from replies import Detokenizer
from routes import application
from tokenizers import Tokenizer

async def asked(*headers):
    app = application(parse(["--model", "model"]), None)
    app.on_startup.clear()
    async with TestClient(TestServer(app)) as client:
        paths = ("/health", "/nowhere")
        statuses = [(await client.get(path, headers=own)).status for path in paths for own in headers]
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer \\xff\\r\\n\\r\\n")
        statuses.append(int((await reader.readline()).split()[1]))
        writer.close()
        return statuses

tokenizer = Tokenizer.from_file({str(TARGET / "tokenizer.json")!r})
ids = tokenizer.encode({WHOLE!r}).ids

def parts(size):
    text = Detokenizer(tokenizer.decode, tokenizer.encode("before").ids)
    return [text.add(ids[at : at + size], last=at + size >= len(ids)) for at in range(0, len(ids), size)]

own, wrong = {{"Authorization": "Bearer the key"}}, {{"Authorization": "Bearer another"}}
print(json.dumps({{
    "statuses": asyncio.run(asked({{}}, wrong, own)),
    "tokens": len(ids),
    "parts": [parts(size) for size in (1, 2, 3, 5)],
    "cut": Detokenizer(tokenizer.decode, []).add(ids[:-2], last=True),
}}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (program := tmp_path_factory.mktemp("inside") / "program.py").write_text(PROGRAM)
    done = ended(program)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_it_answers_with_its_key_alone(told: dict[str, Any]) -> None:
    assert told["statuses"] == [401, 401, 200, 401, 401, 404, 401]


def test_half_a_character_waits_for_its_other_half(told: dict[str, Any]) -> None:
    assert told["tokens"] > len(WHOLE)
    assert ["".join(parts) for parts in told["parts"]] == [WHOLE] * 4
    assert told["cut"].endswith("\ufffd")
