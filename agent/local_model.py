"""A transformers model in this process as a chat model: constrained decoding, an append-only history, a cache between turns.

torch and transformers are imported when the model is first asked, not before. Replies are greedy by default; sampled ones are
drawn from a seed. What the model wrote stays in the history as the tokens that it wrote, and only what was added since is
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envwright.agent.constrained import GrammarBounds
from envwright.agent.decoder import Constraint, Decoded, Sampling, Segment
from envwright.agent.fitting import fit
from envwright.agent.limits import Limits
from envwright.agent.local_weights import LivePolicy, LoadedModel, load_model, require_packages, wrap_model
from envwright.agent.messages import AssistantMessage, Message, Usage
from envwright.agent.models import Completion, ModelError
from envwright.agent.reply import assistant_reply
from envwright.agent.text_gate import TextGate
from envwright.env.errors import UserError

__all__ = ["LocalModel"]

_SMALLEST_REPLY = 64
"""Tokens below which a reply is not begun: no useful call is shorter."""
_DECIDING = ("propose_patch",)
"""Tools that may end a session."""
_DECISIONS = 2
"""Replies at the end of a fitted session that must decide: a proposal and its repair. A small model would look for ever."""
_UNSTUCK = 0.8
"""Temperature at which a greedy reply is drawn anew when it repeats the one before: the most likely reply would never change."""


@dataclass(frozen=True, slots=True)
class _History:
    """The conversation up to the model's last reply, as segments of tokens."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    segments: tuple[Segment, ...]
    pending: Segment
    """The last tokens that were written: they are not in the cache yet."""
    ended: bool


class LocalModel:
    """Weights in a folder or in memory, decoded in this process.

    Args:
        source: a folder with a causal language model and its tokenizer, as transformers saves them, or with a LoRA adapter of
            one, as peft saves it; or a model in memory, of which nothing is kept between sessions, since its weights change.
        name: name for transcripts; default `local:` and the folder's name.
        max_tokens: most tokens of one reply.
        temperature: 0 takes the most likely token, above it tokens are drawn.
        seed: seed of the draws.
        free_text: let a reply be any text beside tool calls, for conversations with a person; constrained replies are a
            tool call, or KEEP and a reason.
        bounds: for what the tools' schemas leave open; default: so that an average call fits `max_tokens`.

    Raises:
        MissingExtraError: torch, transformers or xgrammar is not installed.
        UserError: no such folder, or none that holds a model; a model in memory whose tokenizer has no chat template.
    """

    def __init__(
        self,
        source: Path | LivePolicy,
        *,
        name: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int = 0,
        free_text: bool = False,
        bounds: GrammarBounds | None = None,
    ) -> None:
        require_packages()
        self._source, self._name = source, name or (f"local:{source.resolve().name}" if isinstance(source, Path) else "local")
        self.max_tokens, self.temperature, self.seed, self.free_text = max_tokens, temperature, seed, free_text
        self._bounds = bounds or GrammarBounds.within(max_tokens)
        self._parts: LoadedModel | None = None
        if isinstance(source, Path):
            _require_model(source)
        else:
            self._parts = wrap_model(source, self._name, self._bounds)
        self._history: _History | None = None
        self._decides_after: int | None = None

    @property
    def name(self) -> str:
        """`local:NAME`."""
        return self._name

    def check(self) -> None:
        """Load the model, so that a broken one is found before a run begins.

        Raises:
            ModelError: it cannot be loaded, or is no chat model.
        """
        self._loaded()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Hold one session: a model in memory remembers nothing of an earlier one, and leaves nothing behind."""
        if isinstance(self._source, Path):  # its weights stay as they are, and so may what was computed with them
            yield
            return
        self._forget()
        try:
            yield
        finally:
            self._forget()

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Decode the next reply.

        Raises:
            ModelError: the model cannot be loaded, or the conversation is longer than its context.
        """
        return self._reply(messages, tools, None)

    def stream(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: Callable[[str], None]) -> Completion:
        """Decode the next reply and show its text, calls left out, while it is written; see `complete`."""
        return self._reply(messages, tools, on_text)

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:
        """Decode one JSON document that follows the schema; see `complete`."""
        constraint = self._loaded().grammars.document(schema)
        sampling = Sampling(self.temperature, seed=self.seed + len(messages))
        decoded, text, prompt_tokens = self._decode(self._segments(messages, ()), constraint, None, sampling)
        problem = None if decoded.ended else "the answer was cut at the token limit; answer more briefly"
        return Completion(self._remember(AssistantMessage(content=text), messages, ()), _usage(prompt_tokens, decoded), problem)

    def fitted(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], limits: Limits) -> tuple[Limits, int]:
        """Return limits and a budget for one tool result with which a session stays within the context.

        Args:
            messages: what the session begins with.
            tools: OpenAI function tool specs.
            limits: what is wanted; `request_limit` may come back smaller.

        Returns:
            The limits, and the result budget in the tokens of `ToolResult.text` (4 characters each).

        Raises:
            ModelError: the context cannot hold the first messages, one result and two replies.
        """
        context, first = self._loaded().context, sum(map(len, self._segments(messages, tools)))
        limits, budget = fit(self._name, context, first, self.max_tokens, limits)
        self._decides_after = sum(isinstance(message, AssistantMessage) for message in messages) + max(1, limits.request_limit - _DECISIONS)
        return limits, budget

    def _reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: Callable[[str], None] | None) -> Completion:
        gate = TextGate(on_text) if on_text is not None else None
        segments = self._segments(messages, tools)
        sampling, spent = Sampling(self.temperature, seed=self.seed + len(messages)), Usage()
        while True:
            constraint = self._loaded().grammars.reply(self._choice(messages, tools)) if tools and not self.free_text else None
            decoded, text, prompt_tokens = self._decode(segments, constraint, gate, sampling)
            message, problem = assistant_reply(text, messages, cut=not decoded.ended)
            spent += Usage(completion_tokens=len(decoded.ids))
            if sampling.temperature > 0 or not _repeats(message, messages):
                break
            sampling = replace(sampling, temperature=_UNSTUCK)
        if gate is not None:
            gate.finish()
        spent += Usage(requests=1, prompt_tokens=prompt_tokens)
        return Completion(self._remember(message, messages, tools), spent, problem)

    def _choice(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the tools that the next reply may call: in the last replies of a fitted session only those that decide."""
        replies = sum(isinstance(message, AssistantMessage) for message in messages)
        if self._decides_after is None or replies < self._decides_after:
            return tools
        return [tool for tool in tools if tool["function"]["name"] in _DECIDING] or tools

    def _decode(
        self,
        segments: Sequence[Segment],
        constraint: Constraint | None,
        gate: TextGate | None,
        sampling: Sampling,
    ) -> tuple[Decoded, str, int]:
        """Decode a reply; returns it, its text, and the number of tokens of the prompt."""
        loaded = self._loaded()
        length = sum(map(len, segments))
        room = loaded.context - length
        if room < min(self.max_tokens, _SMALLEST_REPLY):
            raise ModelError(
                f"the conversation has {length} tokens and {self._name} a context of {loaded.context}, too little for a reply: "
                "allow fewer requests, or take a model with a longer context"
            )

        def on_ids(ids: Segment) -> None:
            if gate is not None:
                gate.show(self._text(ids))

        decoded = loaded.decoder.decode(segments, min(self.max_tokens, room), constraint=constraint, sampling=sampling, on_ids=on_ids)
        text = self._text(decoded.ids[:-1] if decoded.ended else decoded.ids)
        if gate is not None:
            gate.show(text)
        cached, pending = decoded.ids[: decoded.cached], decoded.ids[decoded.cached :]
        self._history = _History((), (), (*segments, cached) if cached else tuple(segments), pending, decoded.ended)
        return decoded, text, length

    def _remember(self, message: AssistantMessage, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> AssistantMessage:
        """Keep the conversation with its reply, so that the next request only adds to it."""
        if self._history is not None:
            held = self._history
            self._history = _History((*messages, message), tuple(tools), held.segments, held.pending, held.ended)
        return message

    def _segments(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[Segment]:
        """Return the conversation as tokens: the known ones and what was added, or all of it rendered anew."""
        loaded, held = self._loaded(), self._history
        if held is not None and held.messages and held.tools == tuple(tools) and held.messages == tuple(messages[: len(held.messages)]):
            added = loaded.prompt.after_reply(messages, tools, len(held.messages), loaded.end_mark)
            if added is not None:
                closing = "" if held.ended else loaded.end_mark
                return [*held.segments, (*held.pending, *self._ids(closing + added))]
        return [ids for piece in loaded.prompt.pieces(messages, tools) if (ids := self._ids(piece))]

    def _ids(self, text: str) -> Segment:
        return tuple(self._loaded().tokenizer(text, add_special_tokens=False)["input_ids"])

    def _text(self, ids: Segment) -> str:
        text: str = self._loaded().tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _forget(self) -> None:
        self._history, self._decides_after = None, None
        if self._parts is not None:
            self._parts.decoder.forget()

    def _loaded(self) -> LoadedModel:
        if self._parts is None:
            if not isinstance(self._source, Path):
                raise ValueError("a model in memory is loaded when it is wrapped")
            self._parts = load_model(self._source, self._name, self._bounds)
        return self._parts


def _require_model(path: Path) -> None:
    """Find out whether a folder looks like that of a model, or of an adapter.

    Raises:
        UserError: it does not.
    """
    if any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        return
    what = "is a file, expected a folder" if path.is_file() else "holds no config.json" if path.is_dir() else "no such folder"
    raise UserError(f"local:{path}: {what}; give the folder of a transformers model, or local:smollm2")


def _repeats(message: AssistantMessage, messages: Sequence[Message]) -> bool:
    """True when a reply makes the same calls as the one before."""
    last = next((said for said in reversed(messages) if isinstance(said, AssistantMessage)), None)
    if last is None or not message.tool_calls:
        return False
    return [call.function for call in message.tool_calls] == [call.function for call in last.tool_calls]


def _usage(prompt_tokens: int, decoded: Decoded) -> Usage:
    return Usage(requests=1, prompt_tokens=prompt_tokens, completion_tokens=len(decoded.ids))
