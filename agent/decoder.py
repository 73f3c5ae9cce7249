"""Decodes one reply after another with a key-value cache that is kept between them.

A conversation is a list of segments of token ids. Segments that are the same as at the last call, from the first on, are not
computed again; the others are computed segment by segment, so that a reused prefix and a fresh one give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Constraint", "Decoded", "Decoder", "Sampling"]

_CHUNK = 512
"""Tokens of a segment that are computed at once; bounds the memory of attention."""

Segment = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen."""

    temperature: float = 0.0
    """0 takes the most likely token; above, tokens are drawn."""
    top_p: float = 0.95
    """Draws come from the smallest set of tokens with this probability, when temperature is above 0."""
    seed: int = 0
    """Seed of the draws of one reply."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A reply as tokens."""

    ids: Segment
    """What was written, the end token included."""
    cached: int
    """How many of them are in the cache; the others, at least one, must begin the next segment."""
    ended: bool
    """False when the token limit cut the reply."""
    computed: int
    """Tokens of the prompt that had to be computed; the others were in the cache."""


class Constraint(Protocol):
    """Says what may be written next (`envwright.agent.constrained.TokenConstraint`)."""

    def restrict(self, logits_1v: Any) -> None:
        """Set the logits of every token that may not come next to minus infinity, in place."""

    def accept(self, token: int) -> None:
        """Take note of the token that was chosen."""

    def forced(self) -> list[int]:
        """Return, and take note of, the tokens that must come next, because nothing else may."""


class Decoder:
    """A causal language model of transformers with its cache.

    Args:
        model: the model; it decodes in evaluation mode, and has the mode that it was in afterwards.
        end_ids: tokens that end a reply; each of them does.
    """

    def __init__(self, model: Any, end_ids: Sequence[int]) -> None:
        self._model, self._end_ids = model, frozenset(end_ids)
        self._cache: Any = None
        self._held: list[Segment] = []

    def decode(
        self,
        segments: Sequence[Segment],
        max_tokens: int,
        *,
        constraint: Constraint | None = None,
        sampling: Sampling | None = None,
        on_ids: Callable[[Segment], None] | None = None,
    ) -> Decoded:
        """Continue a conversation.

        Args:
            segments: the prompt, none of them empty.
            max_tokens: most tokens to write.
            constraint: what may be written; None leaves the text free.
            sampling: default: the most likely token.
            on_ids: given the tokens of the text so far after each one.
        """
        import torch

        with torch.no_grad(), _evaluating(self._model):  # not inference_mode: the model may be in training, and keeps what it computes
            choose = _Chooser(constraint, sampling or Sampling())
            logits, computed = self._prefill(segments)
            written: list[int] = []
            while True:
                cached = len(written)
                written.append(choose(logits))
                ended = written[-1] in self._end_ids
                if not ended and constraint is not None:
                    written += constraint.forced()
                if ended or len(written) >= max_tokens:
                    break
                if on_ids is not None:
                    on_ids(tuple(written))
                logits = self._forward(written[cached:])
        if cached:
            self._held.append(tuple(written[:cached]))
        return Decoded(tuple(written), cached, ended, computed)

    def forget(self) -> None:
        """Drop the cache: the weights may change before the next reply."""
        self._cache, self._held = None, []

    def _prefill(self, segments: Sequence[Segment]) -> tuple[Any, int]:
        """Compute what the cache lacks; returns the logits after the last token, and how many tokens were computed."""
        same = 0
        while same < min(len(self._held), len(segments) - 1) and self._held[same] == segments[same]:
            same += 1
        self._keep(same)
        logits, computed = None, 0
        for segment in segments[same:]:
            for begin in range(0, len(segment), _CHUNK):
                logits = self._forward(segment[begin : begin + _CHUNK])
            computed += len(segment)
            self._held.append(segment)
        return logits, computed

    def _keep(self, count: int) -> None:
        """Cut the cache back to its first segments; a cache that cannot be cut is dropped."""
        length = sum(map(len, self._held[:count]))
        if self._cache is not None and self._cache.get_seq_length() != length:
            try:
                self._cache.crop(length)
            except (AttributeError, NotImplementedError, RuntimeError, ValueError):
                length = 0
        if length == 0 or self._cache is None or self._cache.get_seq_length() != length:
            self._cache, count = None, 0
        del self._held[count:]

    def _forward(self, ids: Sequence[int]) -> Any:
        import torch

        inputs = torch.tensor([list(ids)], device=self._model.device)
        output = self._model(input_ids=inputs, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = output.past_key_values
        return output.logits[:, -1].float()


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put every module into evaluation mode, and back into the mode that it was in."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


class _Chooser:
    """Chooses the next token, within a grammar when there is one."""

    def __init__(self, constraint: Constraint | None, sampling: Sampling) -> None:
        import torch

        self._constraint, self._sampling = constraint, sampling
        self._draws = torch.Generator().manual_seed(sampling.seed) if sampling.temperature > 0 else None

    def __call__(self, logits_1v: Any) -> int:
        if self._constraint is not None:
            self._constraint.restrict(logits_1v)
        token = int(logits_1v.argmax(dim=-1).item()) if self._draws is None else self._drawn(logits_1v)
        if self._constraint is not None:
            self._constraint.accept(token)
        return token

    def _drawn(self, logits_1v: Any) -> int:
        import torch

        heated = logits_1v.cpu() / self._sampling.temperature  # on the processor: some GPU kernels are not deterministic
        probabilities, order = torch.softmax(heated, dim=-1).sort(descending=True)
        kept = probabilities.cumsum(dim=-1) - probabilities < self._sampling.top_p
        place = torch.multinomial(probabilities * kept, 1, generator=self._draws)
        return int(order.gather(-1, place).item())
