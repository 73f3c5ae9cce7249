"""The files for `accelerate launch`: accelerate reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "training" / "launch"
KINDS = {
    "cpu_2_processes": "MULTI_GPU",
    "deepspeed_zero2": "DEEPSPEED",
    "fsdp2": "FSDP",
    "multi_gpu": "MULTI_GPU",
    "single_gpu": "NO",
}


def test_every_file_is_known_here() -> None:
    assert {path.stem for path in LAUNCH.glob("*.yaml")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_accelerate_reads_every_file_and_leaves_precision_to_the_run(name: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(LAUNCH / f"{name}.yaml"))
    assert str(config.distributed_type.value) == KINDS[name]
    assert (config.mixed_precision, config.num_machines) == ("no", 1)
    if name == "deepspeed_zero2":
        assert config.deepspeed_config["zero_stage"] == 2
    if name == "fsdp2":
        assert config.fsdp_config["fsdp_version"] == 2
