"""Measures the models and writes models/report.json.

    python evaluate.py --models PREPARED --scratch SCRATCH

PREPARED is a folder prepare.py wrote. Held-out loss is computed with transformers (the EAGLE-3 head's against the text
itself, over the tokens it can draft, with the target's true hidden states); everything else comes from real `vllm
serve` processes, one after another, temperature 0: acceptance as the difference of the server's counters around each
category at concurrency 1. Speed is measured by a study (`presets/demo.toml`).
"""

import argparse
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import train_target
from batches import HERE, read_tokens
from eagle3_head import DRAFT_VOCABULARY, Eagle3Head, load
from safetensors.torch import load_file
from serving import FLAGS, SPECULATED, Server, serving, speculative_configs
from tokenizer import EOS_ID
from train_eagle3 import observe, rollout, watch_last_layer
from training import THREADS
from transformers import AutoTokenizer, LlamaForCausalLM

CATEGORIES = ("code", "prose", "repeat")
WINDOW_TOKENS, WINDOWS = 384, 80


@dataclass(frozen=True)
class Size:
    prompts: int  # of each category
    new_tokens: int


def prompts(category: str, count: int) -> list[str]:
    lines = (HERE / "prompts" / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def held_out_rows(scratch: Path) -> dict[str, torch.Tensor]:
    """Return windows spread evenly over the held-out text of each category."""
    rows = {}
    for category, stream in read_tokens(scratch, "heldout").items():
        starts = torch.linspace(0, len(stream) - WINDOW_TOKENS, WINDOWS).long()
        rows[category] = torch.stack([torch.from_numpy(stream[s : s + WINDOW_TOKENS]) for s in starts])
    return rows


@torch.inference_mode()
def held_out_head(scratch: Path) -> dict[str, dict[str, object]]:
    """Return the head's loss on its first token, and how often each of its three is the target's first choice."""
    target = train_target.load(HERE / "target").eval()
    watch_last_layer(target)
    head = load(HERE / "eagle3", target.model.embed_tokens.weight)
    draftable = head.d2t + torch.arange(DRAFT_VOCABULARY)
    return {category: head_figures(target, head, rows, draftable) for category, rows in held_out_rows(scratch).items()}


def head_figures(
    target: LlamaForCausalLM, head: Eagle3Head, rows: torch.Tensor, draftable: torch.Tensor
) -> dict[str, object]:
    place = torch.full((int(target.config.vocab_size),), -1).scatter(0, draftable, torch.arange(DRAFT_VOCABULARY))
    nats, agreements = [], []
    for part in rows.split(8):
        states, taught = observe(target, part, draftable)
        _, _, agreed = rollout(head, part, torch.full_like(part, -1), states, taught)
        hidden, _ = head.draft_step(head.fc(states[:, :-1]), part[:, 1:], [])
        predicted, next_token = head.logits(hidden)[:, :-1].log_softmax(-1), place[part[:, 2:]]
        nats.append(-predicted.gather(-1, next_token.clamp(min=0).unsqueeze(-1)).squeeze(-1)[next_token >= 0])
        agreements.append(torch.tensor(agreed) * len(part))
    all_nats, targets = torch.cat(nats), rows[:, 2:].numel()
    return {
        "nats_per_token_it_can_draft": round(all_nats.mean().item(), 3),
        "share_of_tokens_it_can_draft": round(len(all_nats) / targets, 3),
        "agreement_by_drafted_token": [round(a, 3) for a in (sum(agreements) / len(rows)).tolist()],
    }


@torch.inference_mode()
def held_out_loss(name: str, scratch: Path) -> dict[str, dict[str, float]]:
    model, tokenizer = train_target.load(HERE / name), AutoTokenizer.from_pretrained(str(HERE / "target"))
    losses = {}
    for category, rows in held_out_rows(scratch).items():
        nats = sum(train_target.loss_of(model, part).item() * len(part) for part in rows.split(8)) / WINDOWS
        size_bytes = sum(len(tokenizer.decode(r[r != EOS_ID]).encode()) for r in rows)
        losses[category] = {
            "nats_per_token": round(nats, 3),
            "nats_per_byte": round(nats * rows.numel() / size_bytes, 3),
        }
    return losses


def acceptance(before: dict[str, float], after: dict[str, float]) -> dict[str, object]:
    change = {n: after[n] - before.get(n, 0.0) for n in after}
    drafts, drafted, accepted = (change[f"num_{n}_total"] for n in ("drafts", "draft_tokens", "accepted_tokens"))
    if not drafts:
        return {"drafts": 0}
    return {
        "drafts": int(drafts),
        "drafted": int(drafted),
        "accepted": int(accepted),
        "acceptance_rate": round(accepted / drafted, 3),
        "acceptance_length": round(1 + accepted / drafts, 3),
        "by_position": [round(change.get(f"pos{p}", 0.0) / drafts, 3) for p in range(SPECULATED)],
    }


def distinct_bigrams(outputs: list[list[int]]) -> float:
    shares = [len(set(pairwise(ids))) / (len(ids) - 1) for ids in outputs]
    return round(sum(shares) / len(shares), 3)


def by_category(server: Server, size: Size) -> tuple[dict[str, dict[str, object]], dict[str, list[list[int]]]]:
    rows: dict[str, dict[str, object]] = {}
    outputs = {}
    for category in CATEGORIES:
        before = server.counters()
        outputs[category] = [server.complete(p, size.new_tokens) for p in prompts(category, size.prompts)]
        rows[category] = acceptance(before, server.counters())
    return rows, outputs


def equal_share(outputs: dict[str, list[list[int]]], plain: dict[str, list[list[int]]]) -> float:
    pairs = [(a, b) for c in CATEGORIES for a, b in zip(outputs[c], plain[c], strict=True)]
    return round(sum(a == b for a, b in pairs) / len(pairs), 3)


def measure(models: Path, size: Size, logs: Path) -> dict[str, object]:
    methods: dict[str, object] = {}
    plain: dict[str, list[list[int]]] = {}
    for name, config in speculative_configs(models).items():
        with serving(models, config, logs / f"vllm-{name}.log") as server:
            rows, outputs = by_category(server, size)
        plain = plain or outputs
        methods[name] = {"by_category": rows}
        if config is not None:
            shown = {k: Path(str(v)).name if k == "model" else v for k, v in config.items()}
            methods[name] |= {"speculative_config": shown, "equal_to_no_speculation": equal_share(outputs, plain)}
        print(name, json.dumps(methods[name]), flush=True)
    return {"distinct_bigrams": {c: distinct_bigrams(plain[c]) for c in CATEGORIES}, "methods": methods}


def parameters(folder: Path) -> dict[str, int]:
    """Count parameters; the EAGLE-3 head is counted without the embeddings that it shares with the target."""
    names = ("target", "draft", "eagle3")
    return {n: sum(w.numel() for w in load_file(folder / n / "model.safetensors").values()) for n in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, help="folder written by prepare.py")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=16, help="of each category")
    parser.add_argument("--new-tokens", type=int, default=96)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    size = Size(args.prompts, args.new_tokens)
    report = {
        "parameters": parameters(HERE),
        "parameters_of_padded_target": parameters(args.models)["target"],
        "weights_bytes": sum(p.stat().st_size for p in HERE.glob("*/model.safetensors")),
        "held_out_loss": {name: held_out_loss(name, args.scratch) for name in ("target", "draft")},
        "held_out_eagle3": held_out_head(args.scratch),
        "serve_flags": list(FLAGS),
        "distinct_bigrams_of_held_out_text": {
            category: distinct_bigrams([row[: size.new_tokens].tolist() for row in rows])
            for category, rows in held_out_rows(args.scratch).items()
        },
        "prompts_per_category": size.prompts,
        "new_tokens": size.new_tokens,
        **measure(args.models, size, args.scratch),
    }
    (HERE / "report.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
