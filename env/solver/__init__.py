"""Optimal multi-agent path finding on grids: minimal sum of costs, stay at target, or a proof that no plan exists.

Pure Python, standard library only. `solve` is the entry point; `BitBoard` serves whoever needs distances.
"""

from envwright.env.solver.bitboard import BitBoard, Cell
from envwright.env.solver.solution import Solution, SolveStatus
from envwright.env.solver.solve import solve

__all__ = ["BitBoard", "Cell", "Solution", "SolveStatus", "solve"]
