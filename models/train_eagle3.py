"""Trains the EAGLE-3 head on the target's hidden states, drafting three tokens ahead as it will when it serves.

Run it as: python train_eagle3.py --scratch SCRATCH --minutes 20
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import train_target
from batches import HERE, read_tokens
from copying import place_loss
from distil_draft import LOOKING_WEIGHT, SHARPNESS, Lessons
from eagle3_head import AUXILIARY_LAYERS, DRAFT_VOCABULARY, Eagle3Head, Pasts, load, save
from training import Optimisers, rate_scale, steps_until
from transformers import LlamaForCausalLM

DRAFTED = 3
STEP_WEIGHTS = (1.0, 0.8, 0.6)


def frequent_tokens(scratch: Path) -> torch.Tensor:
    """Return the ids that the head may draft: the most frequent in the target's outputs, ties broken by the training
    text.
    """
    counts = np.bincount(np.load(scratch / "continuations.npy").ravel(), minlength=2048).astype(float)
    for stream in read_tokens(scratch, "train").values():
        counts += 0.2 * np.bincount(stream, minlength=2048)
    return torch.from_numpy(np.sort(np.argsort(-counts)[:DRAFT_VOCABULARY]))


@torch.no_grad()
def observe(target: LlamaForCausalLM, rows: torch.Tensor, draftable: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the joined hidden states, and the target's next-token distribution over the draftable tokens."""
    out = target.model(input_ids=rows, use_cache=False, output_hidden_states=True)
    # transformers applies the final norm to the last layer's output; the head gets it without.
    hidden = (*out.hidden_states[:-1], target.model.norm.seen)
    states = [hidden[n] for n in AUXILIARY_LAYERS]
    logits = target.lm_head(out.last_hidden_state)
    return torch.cat(states, dim=-1), (SHARPNESS * logits).softmax(-1)[..., draftable]


def watch_last_layer(target: LlamaForCausalLM) -> None:
    def keep(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        module.seen = inputs[0]

    target.model.norm.register_forward_pre_hook(keep)


def rollout(
    head: Eagle3Head, rows: torch.Tensor, places: torch.Tensor, states: torch.Tensor, taught: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, list[float]]:
    """Return the loss of all three steps, the loss of the first one's attention, and how often each drafts the first
    choice.
    """
    hidden = head.fc(states[:, :-1])
    pasts: Pasts = []
    tokens, wanted = rows[:, 1:], taught[:, 1:]
    loss, agreements = torch.zeros(()), []
    for step in range(DRAFTED):
        hidden, attention = head.draft_step(hidden, tokens, pasts)
        if step == 0:  # the head's position i holds the token i+1, hence the shift by one on both sides
            looking = place_loss(attention[:, :4], (places[:, 1:] - 1).clamp(min=-1))
        logits, truth = head.logits(hidden)[:, step:], wanted[:, step:]
        loss = loss - STEP_WEIGHTS[step] * (truth * logits.log_softmax(-1)).sum(-1).mean()
        agreements.append((logits.argmax(-1) == truth.argmax(-1)).float().mean().item())
        hidden = hidden.roll(1, dims=1)
    return loss, looking, agreements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from models/eagle3")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    target = train_target.load(HERE / "target").eval()
    watch_last_layer(target)
    embedding = target.model.embed_tokens.weight.detach()
    head = load(HERE / "eagle3", embedding) if args.resume else Eagle3Head(embedding, frequent_tokens(args.scratch))
    draftable = head.d2t + torch.arange(DRAFT_VOCABULARY)
    scale = 0.4 if args.resume else 1.0
    optimisers = Optimisers(head, matrix_rate=4e-3 * scale, other_rate=2e-3 * scale)
    lessons, steps, agreements = Lessons(args.scratch, seed=5), 0, [0.0] * DRAFTED

    looking = torch.zeros(())

    def report() -> str:
        save(head, HERE / "eagle3", json.loads((HERE / "target/config.json").read_text()))
        return (
            f"step {steps}, first choices agree "
            + " ".join(f"{a:.3f}" for a in agreements)
            + f", looking {looking:.3f}"
        )

    for progress in steps_until(args.minutes, report):
        rows, places = lessons.batch(3)
        loss, looking, hits = rollout(head, rows, places, *observe(target, rows, draftable))
        (loss + LOOKING_WEIGHT * (1 - progress) * looking).backward()
        optimisers.step(rate_scale(progress))
        agreements = [0.95 * a + 0.05 * s if steps else s for a, s in zip(agreements, hits, strict=True)]
        steps += 1
    print(report())


if __name__ == "__main__":
    main()
