"""Optimal multi-agent path finding: minimal sum of costs or makespan, stay at target, or a proof that no plan exists.

Pure Python, standard library only. `solve` is the entry point for grids and `solve_graph` for any other graph;
`BitBoard` serves whoever needs distances.
"""

from envwright.env.solver.bitboard import BitBoard, Cell
from envwright.env.solver.solution import GraphSolution, Objective, Solution, SolveStatus
from envwright.env.solver.solve import solve
from envwright.env.solver.solve_graph import solve_graph

__all__ = ["BitBoard", "Cell", "GraphSolution", "Objective", "Solution", "SolveStatus", "solve", "solve_graph"]
