"""Grammars for models that decode in process: a tool call built from the tools' own JSON Schemas, a short text, or JSON.

xgrammar masks every token that would leave the grammar, so a whole reply always parses. Schemas bound no free text, and a
small model does not stop by itself: strings, lists and integers without a bound get one, so that a reply fits its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from envwright.agent.loop import KEEP
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.jsonio import dump_json

__all__ = ["GrammarBounds", "ReplyGrammars", "TokenConstraint", "bounded_schema", "json_grammar", "reply_grammar"]

CALL_OPEN, CALL_CLOSE = "<tool_call>\n", "\n</tool_call>"
"""Hermes tags around a call, as chat templates write them."""
_SEPARATORS = (", ", ": ")
"""Layout of `tojson` in chat templates: a call that is read back from the history looks like the one that was written."""


_PLAIN = r"[ !#-;=-\[\]-~]"
"""Printable ASCII without quotes, backslashes and the beginning of a tag."""
_LONGEST = 128
"""Longest repetition that is written as one."""
_REPEATS = 3
"""Most repetitions of a character class that a pattern repeats without a bound, such as the digits of a size."""
_MOST_CHOICES = 6
"""Choices of which every subset is spelled out: 64 lists at most."""


@dataclass(frozen=True, slots=True)
class GrammarBounds:
    """Bounds for what a schema leaves open."""

    characters: int = 160
    """Characters of a free string."""
    items: int = 4
    """Entries of a list."""
    integer: int = 9_999
    """Largest integer."""

    @classmethod
    def within(cls, max_tokens: int) -> GrammarBounds:
        """Return bounds with which an average call ends within so many tokens."""
        return cls(characters=min(1_000, max(60, max_tokens // 3)), items=min(16, max(2, max_tokens // 100)))


def bounded_schema(schema: Any, bounds: GrammarBounds) -> Any:
    """Return a JSON Schema in which every free string, list and integer has an upper bound; bounds that it states stay.

    Free strings are of printable ASCII without quotes and backslashes: xgrammar lets control characters into a string whose
    length is bounded, and JSON does not.
    """
    if isinstance(schema, list):
        return [bounded_schema(item, bounds) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    choices = _choices(schema)
    if choices is not None:
        return {"enum": choices}
    result = {key: value if key in ("enum", "const", "default") else bounded_schema(value, bounds) for key, value in schema.items()}
    if {"enum", "const"} & set(schema):
        return result
    if schema.get("type") == "string":
        return {"type": "string", "pattern": _pattern(schema, bounds)}
    if schema.get("type") == "array":
        result.setdefault("maxItems", max(bounds.items, schema.get("minItems", 0)))
    if schema.get("type") == "integer":
        result.setdefault("maximum", max(bounds.integer, schema.get("minimum", 0)))
    return result


def _pattern(schema: Mapping[str, Any], bounds: GrammarBounds) -> str:
    """Return the regular expression of a string: its own with bounded repetitions, or printable text of a bounded length."""
    if isinstance(schema.get("pattern"), str):
        own: str = schema["pattern"]
        return own.replace("]+", f"]{{1,{_REPEATS}}}").replace("]*", f"]{{0,{_REPEATS}}}")
    least = schema.get("minLength", 0)
    most = max(least, min(schema.get("maxLength", bounds.characters), bounds.characters))
    return f"^{_repeated(_PLAIN, least, most)}$"


def _repeated(character: str, least: int, most: int) -> str:
    """Return a repetition as a row of short ones: xgrammar 0.2.7 fails on one of more than 128."""
    whole, rest = divmod(most - least, _LONGEST)
    row = [f"{character}{{{least}}}"] if least else []
    return "".join([*row, *[f"{character}{{0,{_LONGEST}}}"] * whole, *([f"{character}{{0,{rest}}}"] if rest else [])])


def _choices(schema: Mapping[str, Any]) -> list[list[Any]] | None:
    """Spell out a list of few choices: each at most once, in the schema's order, since a small model repeats the first for ever."""
    items = schema.get("items") if schema.get("type") == "array" else None
    options = items.get("enum") if isinstance(items, Mapping) else None
    if not options or len(options) > _MOST_CHOICES:
        return None
    sizes = range(schema.get("minItems", 0), min(schema.get("maxItems", len(options)), len(options)) + 1)
    return [list(chosen) for size in sizes for chosen in combinations(options, size)]


def reply_grammar(tools: Sequence[Mapping[str, Any]], bounds: GrammarBounds) -> Any:
    """Return the xgrammar grammar of a reply: a call of one of the tools, or KEEP and a reason.

    Raises:
        MissingExtraError: xgrammar is not installed.
        UserError: a schema is beyond xgrammar.
    """
    xgr = _xgrammar()
    keep = xgr.Grammar.from_regex(f"{KEEP}: {_repeated(_PLAIN, 1, bounds.characters)}")
    return xgr.Grammar.union(*(_call_grammar(xgr, tool["function"], bounds) for tool in tools), keep)


def json_grammar(schema: Mapping[str, Any], bounds: GrammarBounds) -> Any:
    """Return the xgrammar grammar of one JSON document.

    Raises:
        MissingExtraError: xgrammar is not installed.
        UserError: the schema is beyond xgrammar.
    """
    xgr = _xgrammar()
    try:
        return xgr.Grammar.from_json_schema(dump_json(bounded_schema(schema, bounds)), any_whitespace=False, separators=_SEPARATORS)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the JSON Schema cannot be turned into a grammar: {' '.join(str(error).split())[:200]}") from None


def _call_grammar(xgr: Any, function: Mapping[str, Any], bounds: GrammarBounds) -> Any:
    head = CALL_OPEN + '{"name": ' + dump_json(function["name"]) + ', "arguments": '
    return xgr.Grammar.concat(_literal(xgr, head), json_grammar(function["parameters"], bounds), _literal(xgr, "}" + CALL_CLOSE))


def _literal(xgr: Any, text: str) -> Any:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return xgr.Grammar.from_ebnf(f'root ::= "{quoted}"')


class ReplyGrammars:
    """Compiles grammars for one tokenizer, each once.

    Args:
        tokenizer: a transformers tokenizer.
        vocab_size: width of the model's logits, which may exceed the tokenizer's.
        stop_ids: tokens that end a reply.
        bounds: for what schemas leave open.

    Raises:
        MissingExtraError: xgrammar is not installed.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, stop_ids: Sequence[int], bounds: GrammarBounds) -> None:
        xgr = _xgrammar()
        info = xgr.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size, stop_token_ids=list(stop_ids))
        self._xgr, self._bounds, self._tokenizer = xgr, bounds, tokenizer
        self._compiled: dict[str, Any] = {}
        self._compiler = xgr.GrammarCompiler(info, max_threads=1)

    def reply(self, tools: Sequence[Mapping[str, Any]]) -> TokenConstraint:
        """Return the constraint of a reply: a tool call, or KEEP and a reason."""
        return self._constraint("reply" + dump_json(list(tools)), lambda: reply_grammar(tools, self._bounds))

    def document(self, schema: Mapping[str, Any]) -> TokenConstraint:
        """Return the constraint of one JSON document."""
        return self._constraint("json" + dump_json(dict(schema)), lambda: json_grammar(schema, self._bounds))

    def _constraint(self, key: str, make: Callable[[], Any]) -> TokenConstraint:
        if key not in self._compiled:
            self._compiled[key] = self._compiler.compile_grammar(make())
        return TokenConstraint(self._xgr, self._xgr.GrammarMatcher(self._compiled[key]), self._tokenizer)


class TokenConstraint:
    """One reply's way through a grammar (`envwright.agent.decoder.Constraint`).

    Args:
        xgr: the xgrammar module.
        matcher: its matcher, at the beginning.
        tokenizer: turns forced text into tokens.
    """

    def __init__(self, xgr: Any, matcher: Any, tokenizer: Any) -> None:
        self._xgr, self._matcher, self._tokenizer = xgr, matcher, tokenizer
        self._mask: Any = None

    def restrict(self, logits_1v: Any) -> None:
        """Set the logits of tokens that leave the grammar to minus infinity."""
        if self._mask is None:
            self._mask = self._xgr.allocate_token_bitmask(1, logits_1v.shape[-1])
        self._matcher.fill_next_token_bitmask(self._mask)
        self._xgr.apply_token_bitmask_inplace(logits_1v, self._mask.to(logits_1v.device))

    def accept(self, token: int) -> None:
        """Go on by the chosen token."""
        self._matcher.accept_token(token)

    def accepts(self, text: str) -> bool:
        """Go on by a text; true when the grammar takes it as a whole reply."""
        return bool(self._matcher.accept_string(text)) and bool(self._matcher.is_completed())

    def forced(self) -> list[int]:
        """Go on by the text that the grammar forces, such as the keys of an object, and return its tokens."""
        text = self._matcher.find_jump_forward_string()
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        taken = []
        for token in ids:
            if not self._matcher.accept_token(token):
                break
            taken.append(token)
        return taken


def _xgrammar() -> Any:
    try:
        import xgrammar
    except ImportError:
        raise MissingExtraError("xgrammar", "local", "a model in process") from None
    return xgrammar
