"""Instances as a folder that Hugging Face's `load_dataset(FOLDER)` reads: a Parquet file per split and a dataset card.

The `datasets` library is imported when it is called, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envwright.env.canonical import Split
from envwright.env.cells import FRAME, board_words
from envwright.env.chat import chat_prompt
from envwright.env.errors import MissingExtraError
from envwright.env.formats.folder import new_folder
from envwright.env.instance import Instance
from envwright.env.jsonio import write_atomic

__all__ = ["COLUMNS", "dataset_row", "export_dataset"]

COLUMNS: dict[str, str] = {
    "schema_version": "version of the instance format, 1",
    "id": "name of the board: agents, size, content hash",
    "size": "side length N of the N x N board",
    "holes": "cells that no agent may enter, `[row, col]` from the top left",
    "starts": "start of each agent",
    "goals": "goal of each agent",
    "optimal_cost": "minimal sum of costs, in timesteps",
    "optimal_makespan": "smallest makespan among the plans of that cost, in timesteps",
    "wait_required": "whether every plan of that cost contains a wait before arrival",
    "prompt": "the task as a conversation, for language models (TRL's conversational format)",
    "cell_prompt": f"the board in the cell notation, for small policies; null above {FRAME} x {FRAME}",
}
"""Columns in order, and what they hold."""


def dataset_row(instance: Instance) -> dict[str, Any]:
    """Return one row: the keys of the instance line, and the prompts."""
    fits = instance.size <= FRAME
    words = board_words(instance.size, instance.holes, instance.starts, instance.goals) if fits else None
    return {**instance.to_json(), "prompt": chat_prompt(instance), "cell_prompt": words}


def export_dataset(by_split: Mapping[Split, Sequence[Instance]], out: Path) -> None:
    """Write `README.md` and `data/SPLIT.parquet` per split.

    Args:
        by_split: instances of each split that has some; see `envwright.env.formats.selection`.
        out: the folder to make.

    Raises:
        MissingExtraError: `datasets` is not installed.
        UserError: the folder exists already or cannot be written.
    """
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("datasets", "train", "export --format hf") from None
    features = _features(datasets)
    with new_folder(out) as folder, _no_progress_bars(datasets):
        (folder / "data").mkdir()
        for split, instances in by_split.items():
            rows = [dataset_row(instance) for instance in instances]
            datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "data" / f"{split}.parquet")
        write_atomic(folder / "README.md", _card({split: len(instances) for split, instances in by_split.items()}))


def _features(datasets: Any) -> Any:
    """The columns' types: cells stay lists of two whole numbers."""
    number, text = datasets.Value("int64"), datasets.Value("string")
    cells = datasets.List(datasets.List(number, length=2))
    types = {
        "schema_version": number,
        "id": text,
        "size": number,
        "holes": cells,
        "starts": cells,
        "goals": cells,
        "optimal_cost": number,
        "optimal_makespan": number,
        "wait_required": datasets.Value("bool"),
        "prompt": datasets.List({"role": text, "content": text}),
        "cell_prompt": text,
    }
    return datasets.Features({name: types[name] for name in COLUMNS})


@contextmanager
def _no_progress_bars(datasets: Any) -> Iterator[None]:
    """Keep the library's bars off stderr, and leave its setting as it was."""
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            datasets.enable_progress_bars()


def _card(counts: Mapping[Split, int]) -> str:
    """Return the dataset card, whose header tells `load_dataset` which file is which split."""
    files = "".join(f"  - split: {split}\n    path: data/{split}.parquet\n" for split in counts)
    table = "".join(f"| `{name}` | {text} |\n" for name, text in COLUMNS.items())
    rows = "".join(f"| {split} | {count} |\n" for split, count in counts.items())
    return (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}tags:\n- multi-agent-path-finding\n---\n\n"
        "# MAPF-FrozenLake instances\n\n"
        "Square boards with holes on which several agents must reach their goals without a collision; every board is labelled with "
        "its exact optimum by envwright's solver.\n\n"
        '```python\nfrom datasets import load_dataset\n\nboards = load_dataset("PATH/OF/THIS/FOLDER")\n```\n\n'
        "A board's split follows from its content, up to the 8 symmetries of the square and the names of the agents: no board is in "
        "two splits.\n\n"
        f"| split | boards |\n| --- | --- |\n{rows}\n| column | meaning |\n| --- | --- |\n{table}"
    )
