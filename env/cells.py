"""The cell notation: boards and plans as short sequences of words, for small policies.

A board is `4x4 holes 02 agents 00 30 33 12 plan`: size, hole cells in reading order, start and goal of each agent. The
answer names the next cell of every agent, timestep by timestep, and ends with `end`: `10 32 20 22 30 12 end` moves
agent 0 down three times while agent 1 goes left, up, up. A cell is its row and column digit on a 10 x 10 frame, so
moves are implied, state is explicit, and every word is one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envwright.env.errors import UserError
from envwright.env.rules import BoardLike, paths_from_moves

__all__ = ["CELL_WORDS", "END", "FRAME", "VOCABULARY", "board_words", "is_cell_answer", "plan_words", "read_cell_answer"]

Cell = tuple[int, int]

FRAME = 10
"""Largest board side that the notation can name."""
PAD, BEGIN, END, HOLES, AGENTS, PLAN = "<pad>", "<begin>", "end", "holes", "agents", "plan"
CELL_WORDS = tuple(f"{row}{col}" for row in range(FRAME) for col in range(FRAME))
SIZE_WORDS = tuple(f"{size}x{size}" for size in range(1, FRAME + 1))
VOCABULARY: tuple[str, ...] = (PAD, BEGIN, END, HOLES, AGENTS, PLAN, *SIZE_WORDS, *CELL_WORDS)
"""Every word, in token order (116 of them)."""

_CELL_OF_WORD: dict[str, Cell] = {word: (int(word[0]), int(word[1])) for word in CELL_WORDS}
_ANSWER_WORDS = frozenset((*CELL_WORDS, END))


def board_words(size: int, holes: Iterable[Cell], starts: Sequence[Cell], goals: Sequence[Cell]) -> str:
    """Return the prompt of a board.

    Raises:
        UserError: the board is larger than the 10 x 10 frame.
    """
    if size > FRAME:
        raise UserError(f"a {size}x{size} board does not fit the cell notation's {FRAME}x{FRAME} frame; use a policy with a chat prompt")
    words = [f"{size}x{size}", HOLES, *(f"{r}{c}" for r, c in sorted(holes)), AGENTS]
    for start, goal in zip(starts, goals, strict=True):
        words += [f"{start[0]}{start[1]}", f"{goal[0]}{goal[1]}"]
    return " ".join([*words, PLAN])


def plan_words(board: BoardLike, plan: Sequence[str]) -> str:
    """Return the answer that carries out a plan of action letters; shorter lists are filled with waiting."""
    paths = paths_from_moves(board.starts, plan)
    words: list[str] = []
    for step in range(max(len(path) for path in paths)):
        for start, path in zip(board.starts, paths, strict=True):
            cell = path[min(step, len(path) - 1)] if path else start
            if cell is None:
                raise ValueError(f"plan {plan!r} holds an unknown action")
            words.append(f"{cell[0]}{cell[1]}")
    return " ".join([*words, END])


def is_cell_answer(text: str) -> bool:
    """True when a text consists of cells (and `end`) alone, so that it is to be read in this notation."""
    words = text.split()
    return bool(words) and _ANSWER_WORDS.issuperset(words)


def read_cell_answer(text: str, num_agents: int) -> list[list[Cell | None]] | None:
    """Return each agent's path, or None when the words are no whole timesteps. Words after the first `end` are ignored."""
    words = text.split()
    if END in words:
        words = words[: words.index(END)]
    if len(words) % num_agents:
        return None
    cells = list(map(_CELL_OF_WORD.get, words))
    return [cells[agent::num_agents] for agent in range(num_agents)]
