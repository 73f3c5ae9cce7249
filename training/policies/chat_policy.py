"""A causal language model as the policy: a chat prompt, a JSON answer, all weights or low-rank adapters.

The prompt is `envwright.env.chat`'s, rendered by the model's own chat template; what the model writes after any `<think>` block
is read by `envwright.env.grading`. A checkpoint is an ordinary transformers (or peft) folder with one more file that says how
boards were put to the model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jinja2.exceptions import TemplateError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from envwright.agent.smollm2 import smollm2_folder
from envwright.env.chat import PROMPT_VERSION, chat_prompt
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.grading import solution_answer
from envwright.env.instance import Board
from envwright.env.jsonio import dump_json, read_json
from envwright.env.seeding import derive_seed
from envwright.training.policies.causal_sampler import CausalSampler
from envwright.training.policies.policy import SMOLLM2, Sampler
from envwright.training.settings import LoraSettings, PromptSettings

if TYPE_CHECKING:
    from envwright.training.policies.vllm_sampler import VllmEngine
    from envwright.training.settings import RunSettings

__all__ = ["ChatPolicy", "bare_policy", "load_chat", "model_folder"]

POLICY_FILE = "envwright_policy.json"
"""File of a checkpoint that says how boards are put to the model."""
ADAPTER_FILE = "adapter_config.json"
"""File of a folder that holds low-rank adapters, as peft writes it."""
DEFAULT_ANSWER_TOKENS = 128
"""Longest answer of a model that is measured outside of a run."""
_PROBE = ((0, 1),), ((0, 0), (1, 1)), ((1, 1), (0, 0))
"""Holes, starts and goals of the 2x2 board that templates are tried on."""


class ChatPolicy:
    """A causal language model with its current weights.

    Args:
        model: the transformers model, wrapped by peft or not.
        tokenizer: its tokenizer, with a chat template.
        name: what a person called it.
        prompt: how boards are put to it.
        max_answer_tokens: longest completion while measuring.

    Raises:
        UserError: there is no chat template, or it cannot render the prompt.
    """

    boards_per_batch = 32
    tokens_per_step = False

    def __init__(self, model: Any, tokenizer: Any, name: str, prompt: PromptSettings, max_answer_tokens: int) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.prompt_settings, self.max_answer_tokens = prompt, max_answer_tokens
        self.engine: VllmEngine | None = None
        """vLLM, when a run samples with it."""
        if not tokenizer.chat_template:
            raise UserError(f"policy {name!r}: its tokenizer has no chat template; take the instruct version of the model")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self.eos_ids = _eos_ids(model, tokenizer, name)
        """Every token that ends a completion."""
        self.context: int | None = int(getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length)
        """Longest prompt and completion together, in tokens."""
        self._merges_system = False
        self._probe()

    def prompt(self, board: Board) -> list[dict[str, str]]:
        """Return a board's prompt as messages."""
        messages = chat_prompt(board, self.prompt_settings.rules)
        if not self._merges_system:
            return messages
        system, user = messages
        return [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}]

    def encode(self, prompt: Sequence[dict[str, str]]) -> list[int]:
        """Return messages as token ids, up to where the model answers."""
        ids: list[int] = self.tokenizer(self._rendered(prompt), add_special_tokens=False)["input_ids"]
        return ids

    def text(self, token_ids: Sequence[int]) -> str:
        """Return what was written before the end token."""
        end = next((place for place, token in enumerate(token_ids) if token in self.eos_ids), len(token_ids))
        text: str = self.tokenizer.decode(list(token_ids[:end]), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def ended(self, token_ids: Sequence[int]) -> bool:
        """True when a completion ends by itself."""
        return any(token in self.eos_ids for token in token_ids)

    def answer_ids(self, board: Board, plan: Sequence[str]) -> list[int]:  # noqa: ARG002  # other notations need the board
        """Return a plan of action letters as completion tokens."""
        ids: list[int] = self.tokenizer(solution_answer(tuple(map(" ".join, plan))), add_special_tokens=False)["input_ids"]
        return [*ids, self.tokenizer.eos_token_id]

    def sampler(self) -> Sampler:
        """Return a sampler with the present weights: vLLM's where the run has it, else envwright's own."""
        if self.engine is not None:
            return self.engine.sampler()
        sampler: Sampler = CausalSampler(self.model, self.eos_ids, self.tokenizer.pad_token_id)
        return sampler

    def rebuilt(self, state: dict[str, Any]) -> Any:
        """Return a model like the policy's with other weights, given whole by name, on the same device."""
        adapters = getattr(self.model, "peft_config", None)
        with self.model.device:
            model = AutoModelForCausalLM.from_config(self.model.config, dtype=self.model.dtype)
            if adapters is not None:
                from peft import get_peft_model

                model = get_peft_model(model, adapters["default"])
        model.load_state_dict(state)
        model.get_input_embeddings().padding_idx = None
        model.generation_config = self.model.generation_config
        return model.eval()

    def save(self, folder: Path) -> None:
        """Write weights (adapters alone, where there are any), tokenizer, and how boards are put to the model."""
        self.model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # peft's model card
        self.tokenizer.save_pretrained(folder)
        about = {"prompt": self.prompt_settings.to_json(), "max_answer_tokens": self.max_answer_tokens, **self.provenance()}
        (folder / POLICY_FILE).write_text(dump_json(about) + "\n", encoding="utf-8")

    def provenance(self) -> dict[str, Any]:
        """Return what run.json keeps of it: the prompt's version, and hashes of prompt and chat template."""
        rendered = self._rendered(self.prompt(_probe_board()))
        return {
            "kind": "chat",
            "prompt_version": PROMPT_VERSION,
            "prompt_sha256": hashlib.sha256(rendered.encode()).hexdigest(),
            "chat_template_sha256": hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest(),
            "eos_token_ids": list(self.eos_ids),
        }

    def chat_template_kwargs(self) -> dict[str, Any]:
        """Return what the chat template is given besides the messages."""
        return {"enable_thinking": self.prompt_settings.enable_thinking}

    def _rendered(self, prompt: Sequence[dict[str, str]]) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(prompt), tokenize=False, add_generation_prompt=True, **self.chat_template_kwargs()
        )
        return text

    def _probe(self) -> None:
        """Find out how the template takes the prompt: some know no system message."""
        for merges in (False, True):
            self._merges_system = merges
            try:
                self._rendered(self.prompt(_probe_board()))
            except TemplateError as error:
                problem = " ".join(str(error).split())[:200]
            else:
                return
        raise UserError(f"policy {self.name!r}: its chat template refuses the prompt: {problem}; take another chat template")


def model_folder(spec: str) -> Path:
    """Return the folder of a policy that is a language model.

    Raises:
        UserError: there is none, or it holds no model that envwright reads.
    """
    folder = smollm2_folder() if spec == SMOLLM2 else Path(spec)
    if not folder.is_dir():
        raise UserError(
            f"policy {spec!r}: no such folder; give 'pocket', 'smollm2', the folder of a causal language model (download it first), "
            "or of a checkpoint, such as RUN/stages/00/checkpoint"
        )
    adapters = (folder / ADAPTER_FILE).is_file()
    if not adapters and not (folder / "config.json").is_file():
        raise UserError(f"policy {spec!r}: needs config.json and safetensors weights; is this a model's or a checkpoint's folder?")
    if not list(folder.glob("*.safetensors")):
        raise UserError(f"policy {spec!r}: no safetensors weights in {folder}; convert the model (save_pretrained writes them)")
    if not (folder / "tokenizer_config.json").is_file():
        raise UserError(f"policy {spec!r}: no tokenizer in {folder} (tokenizer_config.json); copy it from where the model came from")
    return folder


def load_chat(spec: str, settings: RunSettings | None) -> ChatPolicy:
    """Load a language model, or a checkpoint of one; see `envwright.training.policy.load_policy`.

    Raises:
        UserError: the folder holds no such model, or its settings ask for what this machine lacks; one line with the fix.
    """
    transformers_logging.disable_progress_bar()
    folder = model_folder(spec)
    about = read_json(folder / POLICY_FILE) if (folder / POLICY_FILE).is_file() else {}
    remote = settings is not None and settings.trust_remote_code
    dtype = torch.float32 if settings is None else getattr(torch, settings.dtype)
    device = _device(settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=remote)
        model = _model(folder, spec, dtype, remote)
    except _UNREADABLE as error:
        raise _unreadable(spec, error) from None
    if settings is not None and settings.lora is not None and not (folder / ADAPTER_FILE).is_file():
        model = _with_adapters(model, settings.lora, derive_seed(settings.seed, "lora"))
    if settings is None:
        prompt = PromptSettings.parse(about.get("prompt", {}), str(folder / POLICY_FILE))
        limit = int(about.get("max_answer_tokens", DEFAULT_ANSWER_TOKENS))
    else:
        prompt = settings.prompt
        limit = settings.evaluation.max_completion_length or settings.grpo.max_completion_length
    return ChatPolicy(model.to(device).eval(), tokenizer, spec, prompt, limit)


_UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError)
"""What transformers raises over folders that it cannot read."""


def _unreadable(spec: str, error: Exception) -> UserError:
    problem = " ".join(str(error).split())[:240]
    if "trust_remote_code" in str(error):
        problem = "it needs code that comes with its files; set trust_remote_code to true if you trust them"
    return error if isinstance(error, UserError) else UserError(f"policy {spec!r}: cannot be loaded: {problem}")


def bare_policy(settings: RunSettings) -> ChatPolicy:
    """Return the policy of a run without its weights: its layers take no memory, its prompts are the real ones.

    Raises:
        UserError: the folder holds no such model.
    """
    folder = model_folder(settings.policy)
    if (folder / ADAPTER_FILE).is_file():
        folder = _base_of(folder, settings.policy)
    remote = settings.trust_remote_code
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=remote)
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=remote)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=remote)
    except _UNREADABLE as error:
        raise _unreadable(settings.policy, error) from None
    limit = settings.evaluation.max_completion_length or settings.grpo.max_completion_length
    return ChatPolicy(model, tokenizer, settings.policy, settings.prompt, limit)


def _model(folder: Path, spec: str, dtype: torch.dtype, remote: bool) -> Any:
    """Load a model's weights, or a base model's and adapters that can be trained on.

    No row of the embedding is left out of training: a padding token that is the end token too stands in every prompt, and whether
    transformers leaves it out depends on what an earlier trainer wrote into the config, so a resumed run would differ.
    """
    model = _read_model(folder, spec, dtype, remote)
    model.get_input_embeddings().padding_idx = None
    return model


def _read_model(folder: Path, spec: str, dtype: torch.dtype, remote: bool) -> Any:
    options = {
        "dtype": dtype,
        "local_files_only": True,
        "use_safetensors": True,
        "trust_remote_code": remote,
        "attn_implementation": "sdpa",
    }
    if not (folder / ADAPTER_FILE).is_file():
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=remote)
        return AutoModelForCausalLM.from_pretrained(folder, config=config, **options)
    _need_peft()
    from peft import PeftModel

    base = AutoModelForCausalLM.from_pretrained(_base_of(folder, spec), **options)
    return PeftModel.from_pretrained(base, folder, is_trainable=True)


def _base_of(folder: Path, spec: str) -> Path:
    """Return the folder of the model that adapters belong to."""
    base = Path(str(read_json(folder / ADAPTER_FILE).get("base_model_name_or_path")))
    if not base.is_dir():
        raise UserError(f"policy {spec!r}: the base model of its adapters is gone: {base}; put it back there")
    return base


def _with_adapters(model: Any, settings: LoraSettings, seed: int) -> Any:
    """Wrap a model with fresh low-rank adapters."""
    _need_peft()
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    try:
        return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings.to_json()))
    except ValueError as error:
        raise UserError(f"lora: {' '.join(str(error).split())[:200]}") from None


def _need_peft() -> None:
    if importlib.util.find_spec("peft") is None:
        raise MissingExtraError("peft", "train", "low-rank adapters (lora)")


def _device(settings: RunSettings | None) -> torch.device:
    """Return where a language model computes.

    Raises:
        UserError: the settings ask for a GPU, or a number type, that is not here.
    """
    wanted = "cpu" if settings is None else settings.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda: torch sees no GPU here; set device to cpu or auto, or install a CUDA build of torch")
    is_cuda = wanted != "cpu" and torch.cuda.is_available()
    if settings is not None and (settings.grpo.bf16 or settings.dtype == "bfloat16"):
        _check_bfloat16(is_cuda, "grpo.bf16" if settings.grpo.bf16 else "dtype bfloat16")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if is_cuda else torch.device("cpu")


def _check_bfloat16(is_cuda: bool, wish: str) -> None:
    """Refuse bfloat16 where the hardware does not compute in it."""
    if is_cuda and not torch.cuda.is_bf16_supported():
        raise UserError(f"{wish}: this GPU does not compute in bfloat16; set it to false, or dtype to float32")
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if not is_cuda and not (supported is not None and supported()):
        raise UserError(f"{wish}: this processor does not compute in bfloat16 (AVX512-BF16); set it to false, or dtype to float32")


def _eos_ids(model: Any, tokenizer: Any, name: str) -> tuple[int, ...]:
    """Return all end tokens: those of the generation config, and the tokenizer's."""
    given = model.generation_config.eos_token_id
    ids = {*(given if isinstance(given, list) else [given]), tokenizer.eos_token_id} - {None}
    if tokenizer.eos_token_id is None or not ids:
        raise UserError(f"policy {name!r}: its tokenizer names no end-of-sequence token; set eos_token in tokenizer_config.json")
    return tuple(sorted(ids))


class _ProbeBoard:
    """A 2x2 board that templates are tried on."""

    size = 2
    holes, starts, goals = _PROBE
    hole_set = frozenset(_PROBE[0])


def _probe_board() -> Any:
    return _ProbeBoard()
