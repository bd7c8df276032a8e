"""Trains the target's attention to copy. Attention that finds "the same token earlier, and its successor" emerges only
after far more training than these models get. So some heads of the first layer are rewarded for attending to the token
before, and some of a later layer for attending to the position of the token to copy. The ordinary loss does the rest.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM


@dataclass(frozen=True)
class Looking:
    """Return the rewarded heads: (layer, number of heads)."""

    before: tuple[int, int]
    there: tuple[int, int]


TARGET = Looking(before=(0, 2), there=(2, 4))
DRAFT = Looking(before=(0, 2), there=(1, 2))


def looking_loss(attentions: tuple[torch.Tensor, ...], places: torch.Tensor, looking: Looking) -> torch.Tensor:
    """Return the losses of attending to the token before, and to the position to copy from. `attentions` by layer,
    [rows, heads, from, to]; `places` as in Sampler.traced_copies.
    """
    layer, heads = looking.before
    previous = attentions[layer][:, :heads].diagonal(-1, dim1=-2, dim2=-1)
    layer, heads = looking.there
    return torch.stack([-(previous + 1e-6).log().mean(), place_loss(attentions[layer][:, :heads], places)])


def place_loss(attention: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    mass = attention.gather(-1, places.clamp(min=0)[:, None, :, None].expand(-1, attention.size(1), -1, 1)).squeeze(-1)
    wanted = (places >= 0)[:, None].expand_as(mass)
    return -(mass[wanted] + 1e-6).log().mean()


def copying_losses(
    model: LlamaForCausalLM, ids: torch.Tensor, places: torch.Tensor, looking: Looking
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of the copied tokens alone, and the loss of the heads' attention."""
    model.set_attn_implementation("eager")
    out = model(input_ids=ids, use_cache=False, output_attentions=True)
    model.set_attn_implementation("sdpa")
    copied = places[:, :-1] >= 0
    return cross_entropy(out.logits[:, :-1][copied], ids[:, 1:][copied]), looking_loss(out.attentions, places, looking)
