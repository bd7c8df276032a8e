"""The server's command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

#: Transformers' own default: the longest n-gram that prompt lookup searches for.
_NGRAM_TOKENS = 2


@dataclass(frozen=True)
class Options:
    model: str
    assistant_model: str | None
    prompt_lookup: bool
    num_speculative_tokens: int  # 0 without speculation
    max_matching_ngram_size: int
    max_model_len: int | None
    host: str
    port: int
    served_model_name: str
    device: str
    dtype: str

    @property
    def method(self) -> Literal["none", "draft_model", "prompt_lookup"]:
        if self.prompt_lookup:
            return "prompt_lookup"
        return "none" if self.assistant_model is None else "draft_model"


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line, or exit with a message on stderr."""
    parser = _parser()
    given = parser.parse_args(arguments)
    speculates = given.assistant_model is not None or given.prompt_lookup
    if speculates and given.num_speculative_tokens is None:
        parser.error("set how many tokens to draft in each round: --num-speculative-tokens K")
    if not speculates and given.num_speculative_tokens is not None:
        parser.error("--num-speculative-tokens needs --assistant-model DIR or --prompt-lookup")
    given.num_speculative_tokens = given.num_speculative_tokens or 0
    given.served_model_name = given.served_model_name or given.model
    return Options(**vars(given))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transformers_server", description="Serve assisted generation over HTTP.")
    parser.add_argument("--model", required=True, help="folder or hub name of the target")
    drafting = parser.add_mutually_exclusive_group()
    drafting.add_argument("--assistant-model", help="folder or hub name of the draft model")
    drafting.add_argument(
        "--prompt-lookup", action="store_true", help="draft by searching the text so far for its last tokens"
    )
    parser.add_argument("--num-speculative-tokens", type=_positive, metavar="K", help="tokens drafted in each round")
    parser.add_argument("--max-matching-ngram-size", type=_positive, default=_NGRAM_TOKENS, metavar="N")
    parser.add_argument("--max-model-len", type=_positive, metavar="TOKENS", help="at most the models' own context")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000)
    parser.add_argument("--served-model-name", help="the name that requests use (default: --model as given)")
    parser.add_argument("--device", default="auto", help="auto, cpu, mps, cuda or cuda:N")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and 65535")
    return number
