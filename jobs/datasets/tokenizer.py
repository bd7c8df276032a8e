"""The target's own tokenizer, which counts lengths and provides the vocabulary of random prompts."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jobs.engines.models import local_folder
from lab.errors import UserError

_FILE = "tokenizer.json"


class TargetTokenizer:
    """Counts and decodes without the special tokens that an engine may add to a prompt."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        special = tokenizer.get_added_tokens_decoder()
        vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=False).values())
        self.ordinary_ids: NDArray[np.int64] = np.array([token for token in vocabulary if token not in special])

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(encoded.ids) for encoded in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, prompts: Iterable[Sequence[int]]) -> list[str]:
        return self._tokenizer.decode_batch([list(ids) for ids in prompts], skip_special_tokens=False)


def target_tokenizer(models_dir: Path, target: str) -> TargetTokenizer:
    """Load the tokenizer of a model's folder, or of a hub name: from this host's hub cache, or fetched into it.

    Raises UserError if there is none.
    """
    folder = local_folder(models_dir, target)
    path = _from_hub(target) if folder is None else folder / _FILE
    if not path.is_file():
        raise UserError(f"{folder} has no {_FILE}, and this dataset's lengths are counted with the target's tokenizer")
    return _load(path, path.stat().st_mtime_ns)


def check_tokenizer(models_dir: Path, target: str) -> None:
    """Raise UserError for a folder without a tokenizer. A hub name is not looked up, just as for the model itself."""
    if local_folder(models_dir, target) is not None:
        target_tokenizer(models_dir, target)


@functools.lru_cache(4)
def _load(path: Path, _changed_ns: int) -> TargetTokenizer:
    try:
        return TargetTokenizer(Tokenizer.from_file(str(path)))
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise UserError(f"{path} is not a readable tokenizer: {error}") from None


def _from_hub(name: str) -> Path:
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - slow to import, and needed for hub names alone
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - likewise

    try:
        return Path(hf_hub_download(name, _FILE, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):
        pass
    try:
        return Path(hf_hub_download(name, _FILE))
    except (OSError, ValueError) as error:
        why = str(error).strip().split("\n")[0]
        raise UserError(
            f"the tokenizer of {name} is not in this host's hub cache and cannot be fetched ({why}): "
            f"run `hf download {name} {_FILE}` here, or set target to a folder that has it"
        ) from None
