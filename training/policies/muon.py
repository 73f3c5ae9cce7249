"""Muon: momentum whose update is orthogonalised by Newton-Schulz iterations (Jordan et al., 2024).

torch ships Muon too, but iterates in bfloat16, which CPUs without bfloat16 units emulate: on such a CPU it tripled the time of a
step. This one keeps the parameters' precision and iterates all matrices of one shape together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

__all__ = ["Muon"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def _orthogonalise(update_BMN: torch.Tensor, iterations: int) -> torch.Tensor:
    """Return the nearest semi-orthogonal matrices, roughly: singular values end between 0.7 and 1.2."""
    a, b, c = _COEFFICIENTS
    flipped = update_BMN.shape[-2] > update_BMN.shape[-1]
    x: torch.Tensor = update_BMN.mT if flipped else update_BMN
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if flipped else x


class Muon(torch.optim.Optimizer):
    """Muon for matrices, with decoupled weight decay and Nesterov momentum.

    Args:
        params: two-dimensional parameters (hidden layers; embeddings, norms and heads belong to AdamW).
        lr: learning rate; updates are scaled to the root mean square of AdamW's (0.2 * sqrt(larger side)).
        momentum: decay of the momentum buffer.
        weight_decay: decoupled weight decay.
    """

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002  # returns no loss: nobody passes a closure
        """Update the parameters from their gradients."""
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                directions = []
                for parameter in parameters:
                    gradient = parameter.grad
                    assert gradient is not None
                    buffer: torch.Tensor = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                    buffer.lerp_(gradient, 1 - group["momentum"])
                    directions.append(torch.lerp(gradient, buffer, group["momentum"]))
                updates = _orthogonalise(torch.stack(directions), iterations=5)
                scale = 0.2 * max(shape) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-group["lr"] * scale)
