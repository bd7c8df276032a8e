"""The Muon optimiser in float32: torch's own works in bfloat16, several times slower on a CPU without it.

Follows Keller Jordan's description (https://kellerjordan.github.io/posts/muon/): momentum, then the nearest
orthogonal matrix by five Newton-Schulz steps, scaled so that a learning rate means what it does for AdamW.
"""

from collections.abc import Iterable

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Orthogonalise matrices of shape [n, rows, columns]: singular values are near 1 afterwards."""
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        by_shape: dict[torch.Size, list[torch.nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        for shape, parameters in by_shape.items():
            update = orthogonal(torch.stack([self._direction(p, group["momentum"]) for p in parameters]))
            scale = 0.2 * max(shape) ** 0.5 * group["lr"]
            for parameter, direction in zip(parameters, update, strict=True):
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=scale)

    def _direction(self, parameter: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        """Return the gradient with Nesterov momentum."""
        velocity: torch.Tensor = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
        velocity.lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(velocity, momentum)
