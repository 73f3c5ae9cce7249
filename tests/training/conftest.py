"""A tiny run: every part real, seconds long."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest

from envwright.training.settings import RunSettings, load_settings

TINY = [
    "num_stages=2",
    "steps_per_stage=2",
    "grpo.per_device_train_batch_size=64",
    "grpo.gradient_accumulation_steps=1",
    "grpo.max_completion_length=24",
    "evaluation.validation_instances=40",
    "evaluation.heldout_instances=16",
    "evaluation.samples=2",
    "threads=1",
]


@pytest.fixture(scope="session")
def tiny_settings() -> RunSettings:
    return load_settings("demo", TINY)
