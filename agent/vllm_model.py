"""vLLM in this process as a chat model, held to the tools' schemas by structured outputs.

vLLM is imported when the model is first asked. Grammars are those of `envwright.agent.constrained`, handed over as EBNF; vLLM
keeps the key-value cache of shared prefixes itself.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envwright.agent.chat_prompt import ChatPrompt
from envwright.agent.constrained import GrammarBounds, bounded_schema, reply_grammar
from envwright.agent.fitting import fit
from envwright.agent.limits import Limits
from envwright.agent.messages import AssistantMessage, Message, Usage
from envwright.agent.models import Completion, ModelError
from envwright.agent.reply import assistant_reply
from envwright.env.errors import MissingExtraError

__all__ = ["VllmModel"]


class VllmModel:
    """Weights in a folder, decoded by vLLM.

    Args:
        path: the model, as vLLM's `LLM` takes it.
        max_tokens: most tokens of one reply.
        temperature: 0 takes the most likely token.
        seed: seed of the draws.
        options: passed to vLLM's `LLM` as they are, for instance `gpu_memory_utilization`. Compilation is off unless they ask
            for it (`enforce_eager`): an engineer writes a few replies.

    Raises:
        MissingExtraError: vLLM is not installed.
    """

    def __init__(
        self, path: str, *, max_tokens: int = 1_024, temperature: float = 0.0, seed: int = 0, options: Mapping[str, Any] | None = None
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError("vllm", "vllm", "the engineer vllm:PATH")
        self.path, self.max_tokens, self.temperature, self.seed = path, max_tokens, temperature, seed
        self._options = dict(options or {})
        self._loaded: tuple[Any, ChatPrompt, int] | None = None

    @property
    def name(self) -> str:
        """`vllm:NAME`."""
        return f"vllm:{Path(self.path).name}"

    def check(self) -> None:
        """Load the model, so that a broken one is found before a run begins."""
        self._load()

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Decode the next reply: a tool call, or KEEP and a reason; free text when there are no tools.

        Raises:
            ModelError: the model cannot be loaded, or the conversation is longer than its context.
        """
        grammar = {"grammar": str(reply_grammar(tools, GrammarBounds.within(self.max_tokens)))} if tools else None
        text, cut, usage = self._generate(messages, tools, grammar)
        message, problem = assistant_reply(text, messages, cut=cut)
        return Completion(message, usage, problem)

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:
        """Decode one JSON document that follows the schema; see `complete`."""
        text, cut, usage = self._generate(messages, (), {"json": bounded_schema(schema, GrammarBounds.within(self.max_tokens))})
        return Completion(AssistantMessage(content=text), usage, "the answer was cut at the token limit" if cut else None)

    def fitted(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], limits: Limits) -> tuple[Limits, int]:
        """Return limits and a budget for one tool result with which a session stays within the context; see `BoundedModel`."""
        _, _, context = self._load()
        return fit(self.name, context, len(self._tokens(messages, tools)), self.max_tokens, limits)

    def _tokens(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        engine, prompt, _ = self._load()
        ids: list[int] = engine.get_tokenizer()(prompt.text(messages, tools), add_special_tokens=False)["input_ids"]
        return ids

    def _generate(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], constraint: dict[str, Any] | None
    ) -> tuple[str, bool, Usage]:
        """Return the text of a reply, whether the token limit cut it, and what it cost."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        engine, _, context = self._load()
        ids = self._tokens(messages, tools)
        if len(ids) + self.max_tokens > context:
            raise ModelError(
                f"the conversation has {len(ids)} tokens and {self.name} a context of {context}, too little for a reply of "
                f"{self.max_tokens}: begin a new session, or take a model with a longer context"
            )
        structured = StructuredOutputsParams(**constraint, disable_any_whitespace=True) if constraint else None
        sampling = SamplingParams(
            temperature=self.temperature, max_tokens=self.max_tokens, seed=self.seed + len(messages), structured_outputs=structured
        )
        (result,) = engine.generate([{"prompt_token_ids": ids}], sampling, use_tqdm=False)
        output = result.outputs[0]
        usage = Usage(requests=1, prompt_tokens=len(ids), completion_tokens=len(output.token_ids))
        return output.text, output.finish_reason == "length", usage

    def _load(self) -> tuple[Any, ChatPrompt, int]:
        """Return the engine, how it writes a conversation, and the tokens that its context holds."""
        if self._loaded is None:
            os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout belongs to --json
            os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
            from vllm import LLM

            options = {"enforce_eager": True, "enable_prefix_caching": True, **self._options}
            try:
                engine = LLM(model=self.path, seed=self.seed, **options)
            except (OSError, ValueError, RuntimeError) as error:
                raise ModelError(f"{self.name} cannot be loaded: {' '.join(str(error).split())[:200]}") from None
            context = int(engine.llm_engine.model_config.max_model_len)
            self._loaded = engine, ChatPrompt(engine.get_tokenizer(), self.name), context
        return self._loaded
