"""Token ids become text without half characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.transformers_server.servers import SCRIPT, TARGET, ended

pytestmark = pytest.mark.engine

#: Runs where the server runs, with the target's real tokenizer: each character below is several tokens.
PROGRAM = f"""
import sys
sys.path.insert(0, {str(SCRIPT)!r})
from replies import Detokenizer
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file({str(TARGET / "tokenizer.json")!r})
whole = " na\u00efve \U0001f642\u65e5\u672c\\n"
ids = tokenizer.encode(whole).ids
assert len(ids) > len(whole)
for size in (1, 2, 3, 5):
    text = Detokenizer(tokenizer.decode, tokenizer.encode("before").ids)
    parts = [text.add(ids[at : at + size], last=at + size >= len(ids)) for at in range(0, len(ids), size)]
    assert "".join(parts) == whole, parts
cut = Detokenizer(tokenizer.decode, [])
assert cut.add(ids[:-2], last=True).endswith("\ufffd")
"""


def test_half_a_character_waits_for_its_other_half(tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAM)
    done = ended(program)
    assert done.returncode == 0, done.stderr
