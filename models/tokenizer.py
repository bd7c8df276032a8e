"""The byte-level BPE tokenizer all three models share: any text encodes, nothing is unknown.

Run it as: python tokenizer.py --scratch SCRATCH
It writes the tokenizer files in models/target, and SCRATCH/{train,heldout}-{code,prose}.bin.
"""

import argparse
import json
from pathlib import Path

import corpus
import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
VOCABULARY = 2048
EOS = "<|end|>"
EOS_ID = 0

# A newline is always a token of its own, so a passage has the same tokens anywhere in a text.
WORDS = Regex(r"\n| ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|[^\S\n]+(?=[^\S\n]\S)|[^\S\n]+|\s")

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def train(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(WORDS, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "pad_token": EOS,
        "model_max_length": 1024,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encode(tokenizer: Tokenizer, documents: list[corpus.Document]) -> np.ndarray:
    """Encode all documents into one row of token ids, an end token after each."""
    encoded = tokenizer.encode_batch([d.text for d in documents])
    return np.concatenate([np.array([*e.ids, EOS_ID], dtype=np.uint16) for e in encoded])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    scratch: Path = parser.parse_args().scratch
    documents = corpus.load(scratch)
    tokenizer = train([d.text for d in documents if not d.held_out])
    save(tokenizer, HERE / "target")
    for category in ("code", "prose"):
        for side, held_out in (("train", False), ("heldout", True)):
            chosen = [d for d in documents if d.category == category and d.held_out == held_out]
            ids = encode(tokenizer, chosen)
            ids.tofile(scratch / f"{side}-{category}.bin")
            size_bytes = sum(len(d.text.encode()) for d in chosen)
            print(f"{side} {category}: {len(ids)} tokens, {size_bytes / len(ids):.2f} bytes per token")


if __name__ == "__main__":
    main()
