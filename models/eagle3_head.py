"""The EAGLE-3 head, as vLLM's LlamaForCausalLMEagle3 computes it, in a form that can be trained.

Names: g is the target's hidden state after three of its layers, joined and put through `fc`. At position i the head
sees g(i) and the embedding of token i+1, and predicts token i+2. In later steps, it sees its own last hidden state
instead of g. Training repeats exactly that ("training-time test", https://arxiv.org/abs/2503.01840).
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import embedding, silu
from training import publish
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

AUXILIARY_LAYERS = (1, 3, 4)  # hidden states after this many layers; 4 is the last real one of the padded target
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP_WIDTH = 256, 8, 4, 32, 512
DRAFT_VOCABULARY = 1024
EPSILON = 1e-5


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(2 * HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(2 * HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(2 * HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)

    def heads(self, projected: torch.Tensor) -> torch.Tensor:
        """Reshape [rows, tokens, width] to [rows, heads, tokens, HEAD_DIM], keys and values repeated per group."""
        split = projected.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
        return split.repeat_interleave(HEADS // split.size(1), dim=1)


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, MLP_WIDTH, bias=False)
        self.up_proj = nn.Linear(HIDDEN, MLP_WIDTH, bias=False)
        self.down_proj = nn.Linear(MLP_WIDTH, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class MidLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(HIDDEN, EPSILON)
        self.hidden_norm = LlamaRMSNorm(HIDDEN, EPSILON)
        self.post_attention_layernorm = LlamaRMSNorm(HIDDEN, EPSILON)
        self.self_attn = Attention()
        self.mlp = MLP()


Pasts = list[tuple[torch.Tensor, torch.Tensor]]


class Eagle3Head(nn.Module):
    """The EAGLE-3 head. `embedding_weight` is the target's, frozen, and not saved: vLLM shares it."""

    def __init__(self, embedding_weight: torch.Tensor, draft_to_target: torch.Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(len(AUXILIARY_LAYERS) * HIDDEN, HIDDEN, bias=False)
        self.midlayer = MidLayer()
        self.norm = LlamaRMSNorm(HIDDEN, EPSILON)
        self.lm_head = nn.Linear(HIDDEN, DRAFT_VOCABULARY, bias=False)
        self.register_buffer("embedding_weight", embedding_weight, persistent=False)
        self.register_buffer("d2t", draft_to_target - torch.arange(DRAFT_VOCABULARY))
        self.lm_head.weight.data.copy_(embedding_weight[draft_to_target])
        self.rotary = LlamaRotaryEmbedding(rope_config())

    def draft_step(
        self, hidden: torch.Tensor, next_tokens: torch.Tensor, pasts: Pasts
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draft one more token at every position at once; `pasts` gains this step's keys and values. Returns the hidden
        states and the attention weights.

        At step s the row's position i stands for the s-th token drafted after position i-s: it sees step 0 at positions
        up to i-s, and each later step t at its own position i-s+t.
        """
        layer, attention = self.midlayer, self.midlayer.self_attn
        embedded = layer.input_layernorm(embedding(next_tokens, self.embedding_weight))
        joined = torch.cat([embedded, layer.hidden_norm(hidden)], dim=-1)
        q, k, v = (attention.heads(p(joined)) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        cos, sin = self.rotary(q, torch.arange(q.size(2))[None])
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        pasts.append((k, v))
        attended, weights = attend(q, pasts)
        hidden = hidden + attention.o_proj(attended.transpose(1, 2).flatten(2))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden)), weights

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.norm(hidden))


def attend(q: torch.Tensor, pasts: Pasts) -> tuple[torch.Tensor, torch.Tensor]:
    step, tokens = len(pasts) - 1, q.size(2)
    visible = torch.ones(tokens, tokens, dtype=torch.bool).tril(-step)
    first_keys, first_values = pasts[0]
    scores = [(q @ first_keys.mT).masked_fill(~visible, -1e9)]
    values = []
    for t in range(1, step + 1):
        k, v = (x.roll(step - t, dims=2) for x in pasts[t])
        scores.append((q * k).sum(-1, keepdim=True))
        values.append(v)
    weights = (torch.cat(scores, dim=-1) / HEAD_DIM**0.5).softmax(-1)
    attended = weights[..., :tokens] @ first_values
    for t, v in enumerate(values):
        attended = attended + weights[..., tokens + t, None] * v
    return attended, weights


def rope_config() -> LlamaConfig:
    return LlamaConfig(hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=HEAD_DIM, max_position_embeddings=1024)


def save(head: Eagle3Head, folder: Path, target_config: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {n: w if n == "d2t" else w.half() for n, w in head.state_dict().items()}
    publish(lambda path: save_file({n: w.contiguous() for n, w in weights.items()}, path), folder / "model.safetensors")
    config = target_config | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "intermediate_size": MLP_WIDTH,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "draft_vocab_size": DRAFT_VOCABULARY,
        "eagle_aux_hidden_state_layer_ids": list(AUXILIARY_LAYERS),
        "tie_word_embeddings": False,
    }
    config.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load(folder: Path, embedding_weight: torch.Tensor) -> Eagle3Head:
    weights = load_file(folder / "model.safetensors")
    head = Eagle3Head(embedding_weight, weights["d2t"] + torch.arange(DRAFT_VOCABULARY))
    head.load_state_dict(weights)
    return head.float()
