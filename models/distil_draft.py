"""Trains the draft model to predict the target's outputs: on the target's own greedy outputs, and on plain text.

Run it as: python distil_draft.py --scratch SCRATCH --minutes 20
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import train_target
from batches import HERE, Sampler
from copying import DRAFT, looking_loss
from training import Optimisers, rate_scale, steps_until
from transformers import LlamaForCausalLM

SHARPNESS = 1.5  # greedy drafts are judged by the target's first choice, so its distribution is made more decided
ROW_TOKENS = 256
LOOKING_WEIGHT = 0.5


class Lessons:
    """Rows of 256 tokens: the target's greedy outputs, plain text, and traced copies, a third each."""

    def __init__(self, scratch: Path, seed: int) -> None:
        self.outputs = torch.from_numpy(np.load(scratch / "continuations.npy").astype(np.int64))
        self.sampler = Sampler(scratch, "train", ROW_TOKENS, seed)

    def batch(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids, and the earlier position of each copied token's successor (else -1)."""
        chosen = torch.randint(len(self.outputs), (count,))
        copies, places = self.sampler.traced_copies(count)
        nowhere = torch.full((2 * count, ROW_TOKENS), -1)
        return torch.cat([self.outputs[chosen], self.sampler.batch(count), copies]), torch.cat([nowhere, places])


@torch.no_grad()
def wanted(target: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    return (SHARPNESS * target(input_ids=rows, use_cache=False).logits).softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from models/draft")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    target = train_target.load(HERE / "target").eval()
    draft = train_target.load(HERE / "draft") if args.resume else train_target.new_model("draft")
    scale = 0.4 if args.resume else 1.0
    optimisers = Optimisers(draft, matrix_rate=5e-3 * scale, other_rate=4e-3 * scale)
    draft.set_attn_implementation("eager")  # the other implementations do not return attention weights
    lessons, steps, agreement = Lessons(args.scratch, seed=4), 0, torch.zeros(3)
    looking = torch.zeros(2)

    def report() -> str:
        train_target.save(draft, HERE / "draft")
        shares = " ".join(f"{a:.3f}" for a in agreement.tolist())
        return f"step {steps}, first choices agree {shares} (outputs, text, copies), looking {looking.tolist()}"

    for progress in steps_until(args.minutes, report):
        rows, places = lessons.batch(4)
        taught = wanted(target, rows)
        out = draft(input_ids=rows, use_cache=False, output_attentions=True)
        loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), taught.flatten(0, 1))
        looking = looking_loss(out.attentions, places, DRAFT)
        (loss + LOOKING_WEIGHT * (1 - progress) * looking.sum()).backward()
        optimisers.step(rate_scale(progress))
        steps += 1
        agree = (out.logits.argmax(-1) == taught.argmax(-1)).float().unflatten(0, (3, -1)).mean((1, 2))
        agreement = 0.9 * agreement + 0.1 * agree if steps > 1 else agree
    print(report())


if __name__ == "__main__":
    main()
