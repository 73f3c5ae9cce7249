"""A policy: turns boards into prompts, samples completions, and is what a run trains.

Two kinds: the pocket policy (`envwright.training.policies.pocket_policy`) and causal language models (`envwright.training.policies.chat_policy`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from envwright.agent.policy_model import LivePolicy
from envwright.env.cells import VOCABULARY
from envwright.env.errors import UserError
from envwright.env.instance import Board, Instance
from envwright.env.jsonio import read_json
from envwright.env.seeding import derive_seed
from envwright.training.processes import gather_lists, num_processes, process_index, wait

if TYPE_CHECKING:
    from envwright.training.policies.vllm_sampler import VllmEngine
    from envwright.training.settings import RunSettings

__all__ = [
    "SMOLLM2",
    "Policy",
    "Sample",
    "Sampler",
    "base_folder",
    "is_pocket",
    "live_policy",
    "load_policy",
    "run_policy",
    "sample_boards",
]

POCKET, SMOLLM2 = "pocket", "smollm2"
"""Names of the policies that need no folder."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion."""

    text: str
    """The completion as it is graded."""
    tokens: int
    """Its length in tokens, the end token included."""
    ended: bool = True
    """False when the token limit cut it."""


class Sampler(Protocol):
    """Writes completions with a policy's present weights."""

    def sample(
        self, prompts: Sequence[Sequence[int]], num_samples: int, max_new_tokens: int, *, seed: int | None, temperature: float = 1.0
    ) -> list[list[list[int]]]:
        """Sample completions.

        Args:
            prompts: token ids of each prompt.
            num_samples: completions per prompt.
            max_new_tokens: longest completion; one without an end token was truncated.
            seed: seed of the sampling noise; None decodes greedily.
            temperature: divides the logits.

        Returns:
            Per prompt, `num_samples` completions as token ids, the end token included.
        """


class Policy(Protocol):
    """A model with its notation."""

    name: str
    """What a person called it."""
    model: Any
    """The transformers model; training changes it in place."""
    tokenizer: Any
    """Its tokenizer, with a padding token."""
    max_answer_tokens: int
    """Longest completion while measuring."""
    context: int | None
    """Longest prompt and completion together, in tokens; None when the notation sees to it."""
    boards_per_batch: int
    """Boards that are sampled together."""
    tokens_per_step: bool
    """True when a completion names the agents' moves timestep by timestep, one token each, so that a step can be credited."""

    engine: VllmEngine | None
    """vLLM, when a run samples with it."""

    def prompt(self, board: Board) -> Any:
        """Return a board's prompt as TRL takes it: text, or messages."""

    def encode(self, prompt: Any) -> list[int]:
        """Return a prompt as token ids."""

    def text(self, token_ids: Sequence[int]) -> str:
        """Return completion tokens as the text that is graded."""

    def ended(self, token_ids: Sequence[int]) -> bool:
        """True when a completion ends by itself."""

    def answer_ids(self, board: Board, plan: Sequence[str]) -> list[int]:
        """Return a plan of action letters as completion tokens, the end token included."""

    def sampler(self) -> Sampler:
        """Return a sampler with the present weights."""

    def rebuilt(self, state: dict[str, Any]) -> Any:
        """Return a model like the policy's with other weights, given whole by name."""

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), tokenizer, and what `load_policy` must know."""

    def chat_template_kwargs(self) -> dict[str, Any] | None:
        """Return what the chat template is given besides the messages; None when there is no template."""

    def provenance(self) -> dict[str, Any]:
        """Return what run.json keeps of it: templates and their hashes."""


def sample_boards(
    policy: Policy,
    instances: Sequence[Instance],
    num_samples: int,
    *,
    seed: int | None,
    max_new_tokens: int | None = None,
    alone: bool = False,
) -> list[list[Sample]]:
    """Sample completions for every instance; greedy when `seed` is None.

    Boards are batched by size and prompt length; the noise depends on the seed and the set of instances, on nothing else.
    The processes of one launch share out the batches, and each gets all the results.

    Args:
        policy: who is asked.
        instances: the boards.
        num_samples: completions per board.
        seed: seed of the sampling noise; None decodes greedily.
        max_new_tokens: longest completion; default: the policy's own.
        alone: this process samples everything, while others do something else.
    """
    sampler, limit = policy.sampler(), max_new_tokens or policy.max_answer_tokens
    if not alone:
        wait()  # a sampler on a server has the weights once the main process has sent them
    prompts = [policy.encode(policy.prompt(instance)) for instance in instances]
    longest = max(map(len, prompts), default=0)
    if policy.context is not None and longest + limit > policy.context:
        raise UserError(
            f"a prompt of {longest} tokens leaves no room for an answer of {limit} in the context of {policy.name!r} ({policy.context}): take smaller "
            "boards, or a model with a longer context"
        )
    order = sorted(range(len(prompts)), key=lambda index: (instances[index].size, len(prompts[index]), index))
    starts = range(0, len(order), policy.boards_per_batch)
    mine = starts if alone else starts[process_index() :: num_processes()]
    made: list[tuple[int, list[Sample]]] = []
    for first in mine:
        batch = order[first : first + policy.boards_per_batch]
        noise = None if seed is None else derive_seed(seed, "sample", first)
        groups = sampler.sample([prompts[index] for index in batch], num_samples, limit, seed=noise)
        for index, group in zip(batch, groups, strict=True):
            made.append((index, [Sample(policy.text(tokens), len(tokens), policy.ended(tokens)) for tokens in group]))
    results: list[list[Sample]] = [[] for _ in prompts]
    for part in [made] if alone else gather_lists(made):
        for index, samples in part:
            results[index] = samples
    return results


def is_pocket(spec: str) -> bool:
    """True for `pocket` and for the folder of a pocket checkpoint; does not load it."""
    if spec == POCKET:
        return True
    folder = Path(spec)
    if spec == SMOLLM2 or not (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
        return False
    config = read_json(folder / "config.json")
    return isinstance(config, dict) and config.get("vocab_size") == len(VOCABULARY)


def load_policy(spec: str, settings: RunSettings | None = None) -> Policy:
    """Load `pocket`, `smollm2`, or the folder of a model or of a checkpoint.

    Args:
        spec: the policy.
        settings: what a run wants of a language model: its device, type, prompt and adapters; default: what the checkpoint
            says of itself, on the CPU in float32.

    Raises:
        UserError: the folder is missing, holds no safetensors weights, or no model that can be used; one line with the fix.
    """
    if is_pocket(spec):
        from envwright.training.policies.pocket_policy import load_pocket

        return load_pocket(spec)
    from envwright.training.policies.chat_policy import load_chat

    return load_chat(spec, settings)


def base_folder(spec: str) -> Path:
    """Return the folder of the weights that a run begins with.

    Raises:
        UserError: there is none.
    """
    if is_pocket(spec):
        from envwright.training.policies.pocket import BASE_CHECKPOINT

        return BASE_CHECKPOINT if spec == POCKET else Path(spec)
    from envwright.training.policies.chat_policy import model_folder

    return model_folder(spec)


def live_policy(policy: Policy) -> LivePolicy | None:
    """Return the model in memory as its own engineer; None for the pocket policy, which is no language model."""
    return None if policy.tokens_per_step else LivePolicy(policy.model, policy.tokenizer)


def run_policy(settings: RunSettings) -> Policy:
    """Load the policy that a run begins with, adapters included; see `load_policy`.

    Raises:
        UserError: it cannot be loaded, or the settings ask for what it cannot do.
    """
    policy = load_policy(settings.policy, settings)
    if policy.model.device.type == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"  # accelerate would take a GPU that is there
    if not policy.tokens_per_step and settings.grpo.step_credit:
        raise UserError(
            "grpo.step_credit needs a policy that writes one token per agent and timestep, as the pocket policy does; set it to false"
        )
    if policy.tokens_per_step and settings.grpo.sampler != "own":
        raise UserError(f"grpo.sampler {settings.grpo.sampler} is for language models; the pocket policy has its own: leave it out")
    if policy.tokens_per_step and settings.device == "cuda":
        raise UserError("device cuda is for language models; the pocket policy is trained on the CPU: leave it out")
    if policy.tokens_per_step:
        policy.max_answer_tokens = settings.evaluation.max_completion_length or policy.max_answer_tokens
    if policy.tokens_per_step and settings.lora is not None:
        raise UserError("lora is for language models; the pocket policy is trained whole: leave lora out")
    return policy
