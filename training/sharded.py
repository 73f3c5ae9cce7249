"""What changes when a launch keeps the optimizer's state, or the weights too, in shares over its processes (ZeRO, FSDP).

Trainers then make their own optimizers, whose state stays with them: Adam begins anew with every stage, and there are no
checkpoints inside one. FSDP's weights are put together again after every stage, for measuring, saving and engineering.
"""

from __future__ import annotations

import os
from typing import Any

from envwright.env.errors import UserError
from envwright.training.settings import RunSettings

__all__ = ["check_sharding", "is_optimizer_sharded", "is_weight_sharded", "whole_state"]

_WRAPPERS = ("_checkpoint_wrapped_module.", "_fsdp_wrapped_module.", "_orig_mod.")
"""What wrappers of modules put into the names of weights."""


def is_weight_sharded() -> bool:
    """True under FSDP: no process has the whole weights."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false") == "true"


def is_optimizer_sharded() -> bool:
    """True under FSDP and DeepSpeed: no process has the whole state of the optimizer."""
    return is_weight_sharded() or os.environ.get("ACCELERATE_USE_DEEPSPEED", "false") == "true"


def check_sharding(settings: RunSettings, *, is_pocket: bool) -> None:
    """Refuse, before any work is done, what cannot be done with shares.

    Raises:
        UserError: names the setting and what to do.
    """
    if os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3":
        raise UserError("ZeRO stage 3 keeps weights in shares that envwright cannot put together: launch with stage 2, or with FSDP2")
    if not is_weight_sharded():
        return
    if is_pocket:
        raise UserError("FSDP is for models that do not fit one process; launch the pocket policy without it")
    if settings.grpo.sampler == "own":
        raise UserError("grpo.sampler own needs whole weights, which FSDP keeps in shares: set it to hf or vllm")
    if os.environ.get("FSDP_CPU_RAM_EFFICIENT_LOADING", "false") == "true":
        raise UserError("fsdp_cpu_ram_efficient_loading leaves all processes but one without weights to measure with: set it to false")


def whole_state(model: Any) -> dict[str, Any]:
    """Return a sharded model's weights and buffers, whole, on the CPU; all processes call it together."""
    import torch
    from torch.distributed.tensor import DTensor

    state: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        state[name] = whole.detach().cpu().clone()
    return state
