"""Rows of token ids to train on: plain text, and documents built from it that contain a repeat of the text above."""

from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
CATEGORIES = ("code", "prose")
REPEAT_HEADINGS = ("Repeat the text above:", "The same text again:", "Copy of the text above:")
CODE_SHARE = 0.6
COPY_SHARE = 0.3  # of all rows
NOISE_SHARE = 0.25  # of the copied passages: random tokens can only be copied, never guessed, so copying is learnt
PASSAGE_TOKENS = (32, 140)


def read_tokens(scratch: Path, side: str) -> dict[str, np.ndarray]:
    return {c: np.fromfile(scratch / f"{side}-{c}.bin", dtype=np.uint16).astype(np.int64) for c in CATEGORIES}


def load_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(str(HERE / "target"))


class Sampler:
    def __init__(self, scratch: Path, side: str, row_tokens: int, seed: int) -> None:
        tokenizer = load_tokenizer()
        self.streams = read_tokens(scratch, side)
        self.row_tokens = row_tokens
        self.rng = np.random.default_rng(seed)
        self.vocabulary = len(tokenizer)
        newline = tokenizer.encode("\n")[0]
        self.newline = newline
        self.line_starts = {c: np.flatnonzero(s[:-1] == newline) + 1 for c, s in self.streams.items()}
        self.headings = [np.array(tokenizer.encode(f"\n{text}\n\n")) for text in REPEAT_HEADINGS]

    def category(self) -> str:
        return "code" if self.rng.random() < CODE_SHARE else "prose"

    def plain_row(self) -> np.ndarray:
        stream = self.streams[self.category()]
        start = self.rng.integers(0, len(stream) - self.row_tokens)
        return stream[start : start + self.row_tokens]

    def passage(self) -> tuple[np.ndarray, np.ndarray]:
        """Return some whole lines, and the text after them."""
        category = self.category()
        stream, starts = self.streams[category], self.line_starts[category]
        wanted = int(self.rng.integers(*PASSAGE_TOKENS))
        start = int(self.rng.choice(starts[: len(starts) - 600]))
        end = starts[np.searchsorted(starts, start + wanted)]
        end = min(int(end), start + 2 * wanted)
        return stream[start:end], stream[end : end + int(self.rng.integers(20, 100))]

    def noise(self) -> tuple[np.ndarray, np.ndarray]:
        length = int(self.rng.integers(12, 60))
        return np.append(self.rng.integers(1, self.vocabulary, length), self.newline), np.array([], dtype=np.int64)

    def traced_copy_row(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a row of short copies, and for each token the earlier position of its successor (else -1)."""
        ids, places = np.array([], dtype=np.int64), np.array([], dtype=np.int64)
        while len(ids) < self.row_tokens:
            passage, after = self.noise() if self.rng.random() < 2 * NOISE_SHARE else self.passage()
            passage = passage[: self.row_tokens // 2 - 16]
            heading = self.headings[int(self.rng.integers(len(self.headings)))]
            copied = np.arange(1, len(passage)) + len(ids)
            blank = np.full(len(passage) + len(heading) - 1, -1)
            places = np.concatenate([places, blank, [len(ids)], copied, np.full(len(after) + 1, -1)])
            ids = np.concatenate([ids, passage, heading, passage, after])
        return ids[: self.row_tokens], places[: self.row_tokens]

    def traced_copies(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = [self.traced_copy_row() for _ in range(rows)]
        ids, places = (torch.from_numpy(np.stack(part)) for part in zip(*pairs, strict=True))
        return ids, places

    def copy_document(self) -> np.ndarray:
        """Return a passage, a heading, the passage again, then the following text: a copy happens only once."""
        passage, after = self.noise() if self.rng.random() < NOISE_SHARE else self.passage()
        heading = self.headings[int(self.rng.integers(len(self.headings)))]
        return np.concatenate([passage, heading, passage, after])

    def copy_prompt(self, tokens: int) -> np.ndarray:
        """Return a prompt that ends with a heading and the first tokens of the passage again, padded in front with
        plain text.
        """
        while True:
            passage, _ = self.passage()
            heading = self.headings[int(self.rng.integers(len(self.headings)))]
            prompt = np.concatenate([self.plain_row()[:tokens], passage, heading])[-tokens:]
            if len(passage) + len(heading) <= tokens:
                return prompt

    def copy_row(self) -> np.ndarray:
        pieces = [self.copy_document()]
        while sum(map(len, pieces)) < self.row_tokens:
            pieces.append(self.copy_document())
        return np.concatenate(pieces)[: self.row_tokens]

    def batch(self, rows: int) -> torch.Tensor:
        """Return a batch of shape [rows, row_tokens]."""
        chosen = [self.copy_row() if self.rng.random() < COPY_SHARE else self.plain_row() for _ in range(rows)]
        return torch.from_numpy(np.stack(chosen))
