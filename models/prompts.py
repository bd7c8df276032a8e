"""Picks the held-out prompts: 96 in each of three categories, out of files that no model was trained on.

    python prompts.py --scratch SCRATCH      writes models/prompts/{code,prose,repeat}.jsonl

A prompt that shares 13 words in a row with the training text is not used, whichever file it comes from.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import corpus
import numpy as np
from batches import HERE, REPEAT_HEADINGS, load_tokenizer

PER_CATEGORY = 96
OVERLAP_WORDS = 13
PROMPT_TOKENS = (48, 152)
PASSAGE_TOKENS = (88, 144)  # of a repeat prompt: long enough that 64 to 128 new tokens are mostly the copy
WORD = re.compile(r"\w+")

Row = dict[str, str]


def word_runs(text: str) -> Iterator[int]:
    words = WORD.findall(text.lower())
    for start in range(len(words) - OVERLAP_WORDS + 1):
        yield hash(tuple(words[start : start + OVERLAP_WORDS]))


class Picker:
    def __init__(self, documents: list[corpus.Document]) -> None:
        self.rng = np.random.default_rng(7)
        self.tokenizer = load_tokenizer()
        self.seen = {run for d in documents if not d.held_out for run in word_runs(d.text)}
        self.held_out = {c: [d for d in documents if d.held_out and d.category == c] for c in ("code", "prose")}
        self.used: set[str] = set()

    def excerpt(self, category: str, tokens: tuple[int, int], *, whole_lines: bool) -> tuple[str, str]:
        """Return a fresh excerpt of about this many tokens, from the start of a line on, and its source."""
        while True:
            document = self.held_out[category][int(self.rng.integers(len(self.held_out[category])))]
            starts = [m.end() for m in re.finditer(r"\n\n(?=\S)", document.text)] or [0]
            start = int(self.rng.choice(starts))
            ids = self.tokenizer.encode(document.text[start : start + 2000])[: int(self.rng.integers(*tokens))]
            text = self.tokenizer.decode(ids)
            text = text[: text.rfind("\n") + 1] if whole_lines and category == "code" else text
            place = f"{document.name}:{document.text.count(chr(10), 0, start) + 1}"
            if len(self.tokenizer.encode(text)) >= tokens[0] and place not in self.used and self.is_new(text):
                self.used.add(place)
                return text, place

    def is_new(self, text: str) -> bool:
        return not any(run in self.seen for run in word_runs(text))

    def plain(self, category: str) -> Iterator[Row]:
        for _ in range(PER_CATEGORY):
            text, place = self.excerpt(category, PROMPT_TOKENS, whole_lines=False)
            yield {"prompt": text, "category": category, "source": place}

    def repeat(self) -> Iterator[Row]:
        for number in range(PER_CATEGORY):
            text, place = self.excerpt(("code", "prose")[number % 2], PASSAGE_TOKENS, whole_lines=True)
            heading = REPEAT_HEADINGS[number % len(REPEAT_HEADINGS)]
            yield {"prompt": f"{text.rstrip()}\n\n{heading}\n\n", "category": "repeat", "source": place}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    picker = Picker(corpus.load(parser.parse_args().scratch))
    (HERE / "prompts").mkdir(exist_ok=True)
    chosen = {"code": picker.plain("code"), "prose": picker.plain("prose"), "repeat": picker.repeat()}
    for category, rows in chosen.items():
        written = list(rows)
        text = "".join(json.dumps(row) + "\n" for row in written)
        (HERE / "prompts" / f"{category}.jsonl").write_text(text, encoding="utf-8")
        lengths = sorted(len(picker.tokenizer.encode(row["prompt"])) for row in written)
        print(f"{category}: {len(lengths)} prompts of {lengths[0]} to {lengths[-1]} tokens")


if __name__ == "__main__":
    main()
