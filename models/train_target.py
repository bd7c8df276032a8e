"""Trains the target, a small Llama, or the draft model on plain text alone.

Run it as: python train_target.py --scratch SCRATCH --model target --minutes 30
"""

import argparse
from pathlib import Path

import torch
from batches import HERE, Sampler
from safetensors.torch import save_file
from tokenizer import EOS_ID, VOCABULARY
from training import THREADS, Optimisers, publish, rate_scale, steps_until
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    "target": {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 688, "num_attention_heads": 8},
    "draft": {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 344, "num_attention_heads": 4},
}


def new_model(name: str) -> LlamaForCausalLM:
    shape = SHAPES[name]
    config = LlamaConfig(
        **shape,
        num_key_value_heads=shape["num_attention_heads"] // 2,
        head_dim=32,
        vocab_size=VOCABULARY,
        max_position_embeddings=1024,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS_ID,
        pad_token_id=None,
        dtype="float32",
        architectures=["LlamaForCausalLM"],
    )
    return LlamaForCausalLM(config)


def save(model: LlamaForCausalLM, folder: Path) -> None:
    """Save in half precision: 2 bytes a parameter, the same numbers that are served."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {n: p.detach().half().contiguous() for n, p in model.state_dict().items() if n != "lm_head.weight"}
    publish(lambda path: save_file(weights, path, {"format": "pt"}), folder / "model.safetensors")
    model.config.save_pretrained(folder)


def load(folder: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(str(folder), dtype=torch.float32)


def loss_of(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=rows[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--model", choices=SHAPES, default="target")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--row-tokens", type=int, default=384)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model = new_model(args.model)
    print(f"{args.model}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    sampler = Sampler(args.scratch, "train", args.row_tokens, seed=1)
    optimisers = Optimisers(model, matrix_rate=5e-3, other_rate=3e-3)
    compiled_loss = torch.compile(loss_of)
    seen_tokens, loss_nats = 0, 0.0

    def report() -> str:
        save(model, HERE / args.model)
        return f"{seen_tokens:,} tokens, loss {loss_nats:.3f} nats per token"

    for progress in steps_until(args.minutes, report):
        loss = compiled_loss(model, sampler.batch(args.rows))
        loss.backward()
        optimisers.step(rate_scale(progress))
        loss_nats = loss.item() if seen_tokens == 0 else 0.95 * loss_nats + 0.05 * loss.item()
        seen_tokens += args.rows * args.row_tokens
    print(report())


if __name__ == "__main__":
    main()
