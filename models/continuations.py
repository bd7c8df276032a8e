"""The target's own greedy outputs after prompts from the training text, which the draft models learn to predict."""

import argparse
from pathlib import Path

import numpy as np
import torch
import train_target
from batches import HERE, Sampler
from tokenizer import EOS_ID
from training import THREADS, publish
from transformers import LlamaForCausalLM

ROWS_AT_ONCE = 64


@torch.inference_mode()
def greedy(model: LlamaForCausalLM, prompts: torch.Tensor, new_tokens: int) -> torch.Tensor:
    """Return outputs of shape [rows, prompt tokens + new_tokens], without end tokens, as with `ignore_eos`."""
    return model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=new_tokens,
        do_sample=False,
        suppress_tokens=[EOS_ID],
        pad_token_id=EOS_ID,
    )


def prompts(sampler: Sampler, rows: int, prompt_tokens: int) -> torch.Tensor:
    """Mix three plain prompts with every prompt for a repeat of the text above."""
    copies = [sampler.copy_prompt(prompt_tokens) for _ in range(rows // 4)]
    plain = [sampler.plain_row()[:prompt_tokens] for _ in range(rows - len(copies))]
    return torch.from_numpy(np.stack(copies + plain))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=24)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    model, sampler = train_target.load(HERE / "target"), Sampler(args.scratch, "train", 384, seed=3)
    done: list[torch.Tensor] = []
    for number in range(args.rounds):
        done.append(greedy(model, prompts(sampler, ROWS_AT_ONCE, 128), 128))
        rows = torch.cat(done).numpy().astype(np.uint16)
        publish(lambda path, rows=rows: np.save(path.open("wb"), rows), args.scratch / "continuations.npy")
        print(f"round {number + 1} of {args.rounds}: {rows.size} tokens", flush=True)


if __name__ == "__main__":
    main()
