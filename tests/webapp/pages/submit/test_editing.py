"""What is stored of what was typed: nothing that seems secret."""

from __future__ import annotations

import pytest

from webapp.pages.submit.editing import without_secrets


@pytest.mark.parametrize(
    "secret",
    [
        "HF_TOKEN=hf_0",
        'api-key-secret: "0"',
        'flags = { dtype = "auto", access_key = "0" }',
        '  "DB_PASSWORD" = "0"',
        "note=hf_abcdefghijklmnopqr",
        'base_url = "http://me:0@127.0.0.1:8000"',
        "sk-abcdefghijklmnopqr",
    ],
)
def test_a_line_that_seems_to_hold_a_secret_is_left_out(secret: str) -> None:
    kept = 'OMP_NUM_THREADS=1\napi_key = "NAME"\napi_key_header = "api-key"\nbase_url = "http://127.0.0.1:8000"'
    state = {"arms": [{"environment": f"{kept}\n{secret}", "k": 3}], "text": secret}
    assert without_secrets(state) == {"arms": [{"environment": kept, "k": 3}], "text": ""}
