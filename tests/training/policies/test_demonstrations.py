"""The base's demonstrations are legal walks of single agents on boards of the train split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.cells import VOCABULARY, read_cell_answer
from envwright.training.policies.demonstrations import demonstrations


def test_every_agent_walks_from_its_start_to_its_goal_without_entering_a_hole() -> None:
    for item in demonstrations(np.random.default_rng(1), 200, 5, 3, 0.2, 0.12):
        words = [VOCABULARY[token] for token in item.prompt]
        holes = {(int(word[0]), int(word[1])) for word in words[words.index("holes") + 1 : words.index("agents")]}
        places = [(int(word[0]), int(word[1])) for word in words[words.index("agents") + 1 : -1]]
        starts, goals = places[0::2], places[1::2]
        assert split_of_hash(content_hash(5, holes, starts, goals)) is Split.TRAIN
        paths = read_cell_answer(" ".join(VOCABULARY[token] for token in item.answer), 3)
        assert paths is not None
        for start, goal, path in zip(starts, goals, paths, strict=True):
            cells = [start, *(cell for cell in path if cell is not None)]
            assert cells[-1] == goal
            assert len(cells) == len(path) + 1
            for before, after in pairwise(cells):
                assert abs(before[0] - after[0]) + abs(before[1] - after[1]) <= 1
                assert after not in holes
                assert max(after) < 5


def test_one_generator_state_gives_one_set_of_demonstrations() -> None:
    first, second = (demonstrations(np.random.default_rng(9), 50, 4, 2, 0.2, 0.12) for _ in range(2))
    assert first == second
