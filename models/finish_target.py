"""Continues to train the target: on text, on copying, and, towards the end, on avoiding loops.

A small model's greedy output soon repeats one phrase for ever, which would make every draft look brilliant. So, on
its own greedy outputs, the model is trained against each token that completes a run of four it has already produced
("unlikelihood training", https://arxiv.org/abs/1908.04319). Copying out of the prompt is left alone.

Run it as: python finish_target.py --scratch SCRATCH --minutes 15
"""

import argparse
from pathlib import Path

import torch
import train_target
from batches import HERE, Sampler
from continuations import greedy, prompts
from copying import TARGET, copying_losses
from training import THREADS, Optimisers, rate_scale, steps_until
from transformers import LlamaForCausalLM

RUN = 4
PROMPT_TOKENS, NEW_TOKENS = 96, 96
POOL_ROWS, FRESH_ROWS, FRESH_EVERY = 160, 32, 20
LOOP_WEIGHT = 1.0


def repeats(rows: torch.Tensor) -> torch.Tensor:
    """Return True where a generated token completes an already generated run of four tokens; shape of `rows`."""
    is_repeat = torch.zeros_like(rows, dtype=torch.bool)
    for row, ids in enumerate(rows.tolist()):
        runs: set[tuple[int, ...]] = set()
        for end in range(PROMPT_TOKENS + RUN, len(ids) + 1):
            run = tuple(ids[end - RUN : end])
            is_repeat[row, end - 1] = run in runs
            runs.add(run)
    return is_repeat


def unlikelihood(model: LlamaForCausalLM, rows: torch.Tensor, repeated: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=rows[:, :-1], use_cache=False).logits
    chosen = logits.log_softmax(-1).gather(-1, rows[:, 1:, None]).squeeze(-1)
    wrong = repeated[:, 1:]
    return -torch.log1p(-chosen[wrong].exp().clamp(max=0.999)).sum() / (wrong.sum() + 50)


class Pool:
    """Holds the model's latest greedy outputs."""

    def __init__(self, model: LlamaForCausalLM, sampler: Sampler) -> None:
        self.model, self.sampler = model, sampler
        self.rows = torch.empty(0, PROMPT_TOKENS + NEW_TOKENS, dtype=torch.long)
        self.repeated = torch.empty(0, PROMPT_TOKENS + NEW_TOKENS, dtype=torch.bool)

    def refresh(self) -> None:
        fresh = greedy(self.model, prompts(self.sampler, FRESH_ROWS, PROMPT_TOKENS), NEW_TOKENS)
        self.rows = torch.cat([self.rows, fresh])[-POOL_ROWS:].clone()
        self.repeated = torch.cat([self.repeated, repeats(fresh)])[-POOL_ROWS:].clone()

    def some(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randperm(len(self.rows))[:count]
        return self.rows[chosen], self.repeated[chosen]

    def loop_share(self) -> float:
        """Return the share of looping tokens in the newest outputs."""
        return self.repeated[-FRESH_ROWS:, PROMPT_TOKENS:].float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--looking", type=float, default=0.3, help="weight of where the heads look, falling to nothing")
    parser.add_argument(
        "--unloop-from", type=float, default=0.5, help="share of the time after which loops are punished"
    )
    parser.add_argument("--rows", type=int, default=6, help="of text, 256 tokens each")
    parser.add_argument("--copy-tokens", type=int, default=256, help="length of each of the four rows of copies")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    model, sampler = train_target.load(HERE / "target"), Sampler(args.scratch, "train", 256, seed=args.seed)
    copies = Sampler(args.scratch, "train", args.copy_tokens, seed=args.seed + 100)
    optimisers = Optimisers(model, matrix_rate=args.rate, other_rate=args.rate / 2)
    pool, steps, figures = Pool(model, sampler), 0, {"text": 0.0, "copied": 0.0, "before": 0.0, "there": 0.0}

    def report() -> str:
        train_target.save(model, HERE / "target")
        losses = ", ".join(f"{n} {v:.3f}" for n, v in figures.items())
        return f"step {steps}, {losses} nats per token, repeated {pool.loop_share():.2f} of the output"

    for progress in steps_until(args.minutes, report):
        text = train_target.loss_of(model, sampler.batch(args.rows))
        copied, looking = copying_losses(model, *copies.traced_copies(4), TARGET)
        loss = text + 0.5 * copied + args.looking * (1 - progress) * looking.sum()
        if progress >= args.unloop_from:
            if steps % FRESH_EVERY == 0 or not len(pool.rows):
                pool.refresh()
            loss = loss + LOOP_WEIGHT * unlikelihood(model, *pool.some(8))
        loss.backward()
        optimisers.step(rate_scale(progress))
        steps += 1
        for name, value in (("text", text), ("copied", copied), ("before", looking[0]), ("there", looking[1])):
            figures[name] = 0.9 * figures[name] + 0.1 * value.item() if steps > 1 else value.item()
    print(report())


if __name__ == "__main__":
    main()
