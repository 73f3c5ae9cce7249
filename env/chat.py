"""Prompt and answer for language models: the rules in words, the board as text, a JSON plan as the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from envwright.env.drawing import draw_board
from envwright.env.errors import UserError
from envwright.env.jsonio import json_values
from envwright.env.rules import MOVE_NAMES, MOVES, BoardLike

__all__ = ["PROMPT_VERSION", "Rules", "chat_prompt", "read_chat_answer", "strip_thinking"]

PROMPT_VERSION = 1
"""Raised whenever a prompt changes by a character: policies are trained on one version."""
Rules = Literal["full", "brief"]
"""full: all rules of the game and a drawing; brief: the board's coordinates and the format, for a model that has learned the rest."""

_LETTER_OF_NAME = {name: letter for letter, name in MOVE_NAMES.items()}


def chat_prompt(board: BoardLike, rules: Rules = "full") -> list[dict[str, str]]:
    """Return the conversation that asks for a plan, in OpenAI's message shape."""
    return _brief_prompt(board) if rules == "brief" else _full_prompt(board)


def _full_prompt(board: BoardLike) -> list[dict[str, str]]:
    moves = ", ".join(f"{letter} = {MOVE_NAMES[letter]} {_change(letter)}" for letter in MOVES)
    rules = (
        "You plan paths for several agents on a frozen lake. Cells are (row, col) from the top left. "
        f"At every timestep all agents act at once. Actions: {moves}. "
        "No agent may leave the board or enter a hole (#). No two agents may be in one cell after a timestep, and no two may exchange cells in one "
        "timestep. An agent may enter a cell that another one leaves in the same timestep. Agents stay on the board at their goals and still block "
        "them; an agent whose list has ended stays where it is. Reach every goal with the smallest sum of arrival times."
    )
    agents = "\n".join(
        f"agent {index}: start ({s[0]}, {s[1]}), goal ({g[0]}, {g[1]})"
        for index, (s, g) in enumerate(zip(board.starts, board.goals, strict=True))
    )
    example = ", ".join(f'"{letters}"' for letters in _example(len(board.starts)))
    task = (
        f"Board {board.size}x{board.size}:\n{draw_board(board)}\n{agents}\n"
        f'Answer with one JSON object that holds one string of actions per agent, in order, like {{"plan": [{example}]}}.'
    )
    return [{"role": "system", "content": rules}, {"role": "user", "content": task}]


def _brief_prompt(board: BoardLike) -> list[dict[str, str]]:
    holes = " ".join(f"{row},{col}" for row, col in sorted(board.hole_set)) or "none"
    agents = "\n".join(
        f"agent {index}: {s[0]},{s[1]} to {g[0]},{g[1]}" for index, (s, g) in enumerate(zip(board.starts, board.goals, strict=True))
    )
    return [
        {"role": "system", "content": f"Plan moves {' '.join(MOVES)} as JSON."},
        {"role": "user", "content": f"{board.size}x{board.size} holes {holes}\n{agents}"},
    ]


def _change(letter: str) -> str:
    row, col = MOVES[letter]
    return "(stay)" if (row, col) == (0, 0) else f"(row {row:+d})" if row else f"(col {col:+d})"


def _example(num_agents: int) -> list[str]:
    """Return actions that show the form; set apart by spaces, each is one token of most tokenizers."""
    return ["R R D" if agent % 2 == 0 else "W D L" for agent in range(num_agents)]


def strip_thinking(text: str) -> str | None:
    """Return what follows the last `</think>`, the text itself when there is no thinking, None when thinking never ends."""
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return None if "<think>" in text else text


def read_chat_answer(text: str, num_agents: int) -> list[list[str]] | None:
    """Return each agent's actions as letters (an unknown one is kept as written), or None when no plan can be read.

    Read is the first object with a "plan" and, in a text without a brace, the first list that is a plan: so neither a cell
    in the prose (`[0, 3]`) nor a list inside an object that was cut off is taken for the answer. An agent's actions are a
    string of letters or a list of letters or names.
    """
    try:
        if "{" in text:
            return next((_plan_actions(value["plan"], num_agents) for value in json_values(text, "{") if "plan" in value), None)
        plans = (_plan_actions(value, num_agents) for value in json_values(text, "["))
        return next((plan for plan in plans if plan is not None), None)
    except UserError:
        return None


def _plan_actions(plan: Any, num_agents: int) -> list[list[str]] | None:
    if not isinstance(plan, list) or len(plan) != num_agents:
        return None
    actions = [_agent_actions(entry) for entry in plan]
    return None if any(entry is None for entry in actions) else [entry for entry in actions if entry is not None]


def _agent_actions(entry: Any) -> list[str] | None:
    words: Sequence[Any]
    if isinstance(entry, str):
        words = list(entry.replace(" ", ""))
    elif isinstance(entry, list) and all(isinstance(word, str) for word in entry):
        words = entry
    else:
        return None
    return [_LETTER_OF_NAME.get(word.strip().lower(), word.strip().upper()) for word in words]
