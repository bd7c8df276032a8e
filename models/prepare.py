"""Writes the three models where vLLM can load them, the target padded until one of its steps is expensive.

    python prepare.py --to FOLDER            FOLDER/target, FOLDER/draft, FOLDER/eagle3
    python prepare.py --to FOLDER --check    compares greedy outputs of the padded and the small target

Padding adds layers that pass their input on (everything in them is zero, so they add zero to the residual stream)
and widens every MLP with zeros. The outputs stay the same, which is checked before anything is put in place; the
arithmetic and the memory traffic of a step become those of a model of 80 M parameters.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaForCausalLM
from transformers.utils import logging

HERE = Path(__file__).resolve().parent
LAYERS = 12
MLP_WIDTH = 8192
TOLERANCE = 1e-3  # in logits, float32
FILES = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")

Weights = dict[str, torch.Tensor]


def padded_weights(weights: Weights, config: dict[str, int]) -> Weights:
    """Return the small target's layers, then the layers that do nothing, so that layer ids are the same in both."""
    padded = {n: w for n, w in weights.items() if ".layers." not in n}
    for layer in range(LAYERS):
        for name in (n for n in weights if n.startswith("model.layers.0.")):
            part = name.removeprefix("model.layers.0.")
            source = weights.get(f"model.layers.{layer}.{part}", torch.zeros_like(weights[name]))
            padded[f"model.layers.{layer}.{part}"] = widened(part, source, config["intermediate_size"])
    return padded


def widened(part: str, weight: torch.Tensor, width: int) -> torch.Tensor:
    missing = MLP_WIDTH - width
    if part.startswith(("mlp.gate_proj", "mlp.up_proj")):
        return torch.nn.functional.pad(weight, (0, 0, 0, missing))
    return torch.nn.functional.pad(weight, (0, missing)) if part.startswith("mlp.down_proj") else weight


def write_target(folder: Path) -> None:
    config = json.loads((HERE / "target/config.json").read_text())
    weights = padded_weights(load_file(HERE / "target/model.safetensors"), config)
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config |= {"num_hidden_layers": LAYERS, "intermediate_size": MLP_WIDTH}
    config.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def copy_files(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (source / name).exists() and not (folder / name).exists():
            shutil.copyfile(source / name, folder / name)


def write_all(folder: Path) -> None:
    write_target(folder / "target")
    copy_files(HERE / "draft", folder / "draft")
    copy_files(HERE / "eagle3", folder / "eagle3")
    for name in ("target", "draft", "eagle3"):
        copy_files(HERE / "target", folder / name)  # the tokenizer, which all three share
    shutil.copytree(HERE / "prompts", folder / "prompts")


def prompts(count: int) -> list[str]:
    """Return the first few prompts of each category."""
    paths = sorted((HERE / "prompts").glob("*.jsonl"))
    return [json.loads(line)["prompt"] for p in paths for line in p.read_text(encoding="utf-8").splitlines()[:count]]


@torch.inference_mode()
def check(folder: Path, prompts_each: int, new_tokens: int) -> int:
    """Return how many prompts agreed. Raises SystemExit unless the padded target behaves like the small one."""
    tokenizer = AutoTokenizer.from_pretrained(str(HERE / "target"))
    small, padded = (LlamaForCausalLM.from_pretrained(str(p), dtype=torch.float32) for p in (HERE / "target", folder))
    texts = prompts(prompts_each)
    for text in texts:
        row = tokenizer(text, return_tensors="pt")
        ids = small.generate(**row, max_new_tokens=new_tokens, do_sample=False, pad_token_id=0)
        expected, actual = small(ids).logits, padded(ids).logits
        generated = slice(row["input_ids"].shape[1] - 1, None)
        same = torch.equal(expected[:, generated].argmax(-1), actual[:, generated].argmax(-1))
        if not same or (expected - actual).abs().max() > TOLERANCE:
            raise SystemExit(f"The padded target disagrees with the small one after: {text[-60:]!r}. Nothing was kept.")
    return len(texts)


def put_in_place(temporary: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    if folder.exists():
        folder.rename(old)
    temporary.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="folder to write; an existing one is replaced")
    parser.add_argument("--check", action="store_true", help="only compare FOLDER/target, over more and longer outputs")
    args = parser.parse_args()
    logging.disable_progress_bar()
    folder: Path = args.to.resolve()
    if args.check:
        print(f"Padded and small target agree on {check(folder / 'target', 4, 64)} prompts.")
        return
    temporary = folder.with_name(f".{folder.name}.new-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        write_all(temporary)
        agreed = check(temporary / "target", prompts_each=1, new_tokens=16)
        put_in_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"Wrote target, draft and eagle3 to {args.to}; padded and small target agree on {agreed} prompts.")


if __name__ == "__main__":
    main()
