"""Weights that FSDP keeps in shares are put together again; what cannot be done with shares is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from envwright.env.errors import UserError
from envwright.training.policies.policy import run_policy
from envwright.training.settings import load_settings
from envwright.training.sharded import check_sharding, whole_state
from tests.agent.tiny_model import save_tiny_model

SHARDING = """
import os, sys, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from envwright.training.policies.policy import run_policy
from envwright.training.settings import load_settings
from envwright.training.sharded import whole_state
dist.init_process_group("gloo")
policy = run_policy(load_settings("smollm2", ["policy=" + sys.argv[1], *sys.argv[3:]]))
before = {name: value.clone() for name, value in policy.model.state_dict().items()}
for layer in policy.model.get_base_model().model.layers if hasattr(policy.model, "get_base_model") else policy.model.model.layers:
    fully_shard(layer)
fully_shard(policy.model)
rebuilt = policy.rebuilt(whole_state(policy.model))
after = rebuilt.state_dict()
assert before.keys() == after.keys()
assert all(torch.equal(before[name], after[name]) for name in before)
ids = torch.tensor([[1, 2, 3]])
torch.save(rebuilt(ids).logits.detach(), sys.argv[2] + "/logits%d.pt" % dist.get_rank())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("more", [[], ["lora.r=2"]], ids=["all weights", "adapters"])
def test_shares_of_two_processes_make_the_same_model_again(tmp_path: Path, more: list[str]) -> None:
    folder = save_tiny_model(tmp_path / "model")
    (tmp_path / "sharding.py").write_text(SHARDING, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(tmp_path / "sharding.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    result = subprocess.run(
        [*launch, str(folder), str(tmp_path), *more], capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    policy = run_policy(load_settings("smollm2", [f"policy={folder}", *more]))
    expected = policy.model(torch.tensor([[1, 2, 3]])).logits
    for rank in range(2):
        assert torch.equal(torch.load(tmp_path / f"logits{rank}.pt"), expected)


def test_a_model_that_is_not_sharded_is_whole_already(tmp_path: Path) -> None:
    policy = run_policy(load_settings("smollm2", [f"policy={save_tiny_model(tmp_path / 'model')}"]))
    state = whole_state(policy.model)
    assert all(torch.equal(state[name], value) for name, value in policy.model.state_dict().items())


@pytest.mark.parametrize(
    ("environment", "overrides", "message"),
    [
        ({"ACCELERATE_USE_FSDP": "true"}, [], "sampler own needs whole weights, which FSDP keeps in shares: set it to hf or vllm"),
        (
            {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"},
            ["grpo.sampler=hf"],
            "fsdp_cpu_ram_efficient_loading leaves all processes but one without weights",
        ),
        ({"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}, [], "ZeRO stage 3 keeps weights in shares"),
    ],
)
def test_what_cannot_be_done_with_shares_is_refused(
    environment: dict[str, str], overrides: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=message):
        check_sharding(load_settings("smollm2", overrides), is_pocket=False)
