"""The solver against the tests' joint Dijkstra on 3,000 and more boards, both objectives: `python -m bench.oracle`.

Boards of sizes 3 and 4 with 2 to 4 agents, drawn without any check that they can be solved, and small random graphs.
Cost, tie-break, `wait_required` and the validity of the plan must agree; exits with 1 when one does not.
"""

from __future__ import annotations

import random
import sys
import time

from envwright.env.solver import Objective, SolveStatus, solve, solve_graph
from tests.env.solver_oracle import as_networkx, disagreement, expected, grid, random_board, random_graph

BOARDS = ((3, 2, 1200), (3, 3, 700), (3, 4, 200), (4, 2, 800), (4, 3, 150), (4, 4, 15))
"""Size, agents, number of boards."""
GRAPHS = ((5, 2, 300), (6, 2, 300), (6, 3, 200), (7, 3, 100), (5, 4, 100))
"""Nodes, agents, number of graphs."""


def check_boards(size: int, agents: int, count: int) -> tuple[int, int, list[str]]:
    """Return the number of unsolvable boards, of wait-required ones, and the disagreements."""
    rng = random.Random(f"bench-{size}-{agents}")
    unsolvable, waits, wrong = 0, 0, []
    for _ in range(count):
        board = random_board(rng, size, agents)
        graph = grid(board[0], board[1])
        wanted = expected(graph, board[2], board[3])
        unsolvable += wanted[Objective.SUM_OF_COSTS].status is SolveStatus.UNSOLVABLE
        waits += bool(wanted[Objective.SUM_OF_COSTS].wait_required)
        for objective in Objective:
            wrong.append(disagreement(graph, board[2], board[3], wanted[objective], solve(*board, objective=objective)))
    return unsolvable, waits, [text for text in wrong if text]


def check_graphs(nodes: int, agents: int, count: int) -> tuple[int, int, list[str]]:
    """The same on random graphs."""
    rng = random.Random(f"bench-graph-{nodes}-{agents}")
    unsolvable, waits, wrong = 0, 0, []
    for _ in range(count):
        graph, starts, goals = random_graph(rng, nodes, agents)
        wanted = expected(graph, starts, goals)
        unsolvable += wanted[Objective.SUM_OF_COSTS].status is SolveStatus.UNSOLVABLE
        waits += bool(wanted[Objective.SUM_OF_COSTS].wait_required)
        for objective in Objective:
            found = solve_graph(as_networkx(graph), starts, goals, objective=objective)
            wrong.append(disagreement(graph, starts, goals, wanted[objective], found))
    return unsolvable, waits, [text for text in wrong if text]


def main() -> int:
    """Run every row and print it."""
    failed = 0
    total = 0
    print("boards                 count  unsolvable  wait required  disagreements  CPU s")
    for name, check, rows in (("size", check_boards, BOARDS), ("nodes", check_graphs, GRAPHS)):
        for size, agents, count in rows:
            begin = time.process_time()
            unsolvable, waits, wrong = check(size, agents, count)
            spent = time.process_time() - begin
            print(f"{name} {size}, {agents} agents{'':<4}{count:>9}{unsolvable:>12}{waits:>15}{len(wrong):>15}{spent:>7.0f}", flush=True)
            for text in wrong:
                print(f"  {text}")
            failed += len(wrong)
            total += count
    print(f"{total} instances x {len(Objective)} objectives: {failed} disagreements")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
