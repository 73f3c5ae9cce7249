"""A plan on a board as a sequence of timesteps: what the pictures and the terminal drawing tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from envwright.env.errors import UserError
from envwright.env.instance import Board, Instance
from envwright.env.rules import MOVES, Outcome, Simulation, simulate

__all__ = ["Story", "story_of"]

Cell = tuple[int, int]
Paths = Sequence[Sequence[Cell | None]]

_LETTERS = {change: letter for letter, change in MOVES.items()}


@dataclass(frozen=True)
class Story:
    """A plan, as far as it goes: up to its first violation, or to its end."""

    board: Board
    """The board; an `Instance` also tells the optimum."""
    paths: Paths
    """Per agent, its cells at timesteps 1, 2, ... (None for an unknown action)."""
    simulation: Simulation | None
    """What the rules say of the plan; None while it is still being made."""
    note: str = ""
    """What to say instead of a verdict, where there is no plan."""

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return len(self.board.starts)

    @property
    def violation(self) -> Outcome | None:
        """The rule that was broken, `goal_not_reached` included."""
        return None if self.simulation is None else self.simulation.violation

    @property
    def culprits(self) -> tuple[int, ...]:
        """The agents at fault."""
        return () if self.simulation is None else self.simulation.agents

    @property
    def broken_step(self) -> int | None:
        """Timestep that broke a rule and was not carried out; None for a valid, an unfinished or merely too short plan."""
        if self.simulation is None or self.simulation.violation in (None, Outcome.GOAL_NOT_REACHED):
            return None
        return self.simulation.step

    @cached_property
    def last(self) -> int:
        """Last timestep of the story."""
        horizon = max((len(path) for path in self.paths), default=0)
        return horizon if self.broken_step is None else self.broken_step

    @cached_property
    def _states(self) -> list[tuple[Cell, ...]]:
        states = [tuple(self.board.starts)]
        for step in range(1, self.last + (self.broken_step is None)):
            cells = (self._target(agent, step, states[-1][agent]) for agent in range(self.num_agents))
            states.append(tuple(cell if cell is not None else before for cell, before in zip(cells, states[-1], strict=True)))
        return states

    def _target(self, agent: int, step: int, before: Cell) -> Cell | None:
        path = self.paths[agent]
        return path[step - 1] if step <= len(path) else before

    def check_step(self, step: int) -> None:
        """Check that the story has a timestep.

        Raises:
            UserError: it has not.
        """
        if not 0 <= step <= self.last:
            raise UserError(f"timestep {step} is not in the plan; it has timesteps 0 to {self.last}")

    def positions(self, step: int) -> tuple[Cell, ...]:
        """Return where the agents are after a timestep; at the broken one, where they were before it."""
        return self._states[min(step, len(self._states) - 1)]

    def attempts(self) -> tuple[Cell | None, ...]:
        """Return the cells that the agents went for in the broken timestep, None for an unknown action; empty without one."""
        if self.broken_step is None:
            return ()
        before = self._states[-1]
        return tuple(self._target(agent, self.broken_step, before[agent]) for agent in range(self.num_agents))

    def trail(self, agent: int, step: int) -> list[Cell]:
        """Return an agent's cells at timesteps 0 to `step`, the broken one left out."""
        return [state[agent] for state in self._states[: step + 1]]

    def waits(self, agent: int) -> dict[Cell, int]:
        """Return where an agent waits before it has arrived for good, and how often; staying after its last action is no wait."""
        trail = self.trail(agent, min(self.last, len(self.paths[agent])))
        while len(trail) > 1 and trail[-1] == trail[-2] == self.board.goals[agent]:
            trail.pop()
        counts: dict[Cell, int] = {}
        for before, after in pairwise(trail):
            if before == after:
                counts[after] = counts.get(after, 0) + 1
        return counts

    def moves(self, agent: int) -> str:
        """Return an agent's action letters up to the end of the story; `?` for what is no action."""
        letters = []
        before: Cell | None = self.board.starts[agent]
        for after in self.paths[agent][: self.last]:
            change = None if before is None or after is None else (after[0] - before[0], after[1] - before[1])
            letters.append("?" if change is None else _LETTERS.get(change, "?"))
            before = after
        return "".join(letters)

    def verdict(self) -> str:
        """Return, in one line, what became of the plan: the costs, or what went wrong, when, who and where."""
        simulation = self.simulation
        if simulation is None:
            return self.note or f"timestep {self.last}"
        if simulation.violation is None:
            return f"{self._quality()}: sum of costs {simulation.sum_of_costs}, makespan {simulation.makespan}"
        kind = simulation.violation.replace("_", " ")
        return f"{kind} at timestep {simulation.step}: {self._where(simulation.violation, simulation.agents)}"

    def _quality(self) -> str:
        if not isinstance(self.board, Instance) or self.simulation is None:
            return "valid"
        optimum = self.board.optimal_cost
        return "valid and optimal" if self.simulation.sum_of_costs == optimum else f"valid, not optimal (optimum {optimum})"

    def _where(self, violation: Outcome, agents: tuple[int, ...]) -> str:
        before = self.positions(self.last)
        if violation is Outcome.GOAL_NOT_REACHED:
            return "; ".join(f"agent {agent} ends at {before[agent]}, its goal is {self.board.goals[agent]}" for agent in agents)
        after = self.attempts()
        if violation is Outcome.SWAP_CONFLICT:
            return f"agents {_names(agents)} exchange {before[agents[0]]} and {before[agents[1]]}"
        if violation is Outcome.VERTEX_CONFLICT:
            parked = [agent for agent in agents if before[agent] == after[agent]]
            movers = tuple(agent for agent in agents if agent not in parked)
            if parked:
                return f"{_who(movers)} {after[agents[0]]}, where agent {parked[0]} stays"
            return f"agents {_names(movers)} both enter {after[agents[0]]}" if len(movers) == 2 else f"{_who(movers)} {after[agents[0]]}"
        if violation is Outcome.HOLE:
            return "; ".join(f"agent {agent} enters the hole {after[agent]}" for agent in agents)
        if violation is Outcome.OUT_OF_BOUNDS:
            return "; ".join(f"agent {agent} leaves the board from {before[agent]}" for agent in agents)
        return "; ".join(f"agent {agent} makes no legal move from {before[agent]}" for agent in agents)


def story_of(board: Board, paths: Paths) -> Story:
    """Return the story of a finished plan."""
    return Story(board, paths, simulate(board, paths))


def _names(agents: Sequence[int]) -> str:
    *first, last = [str(agent) for agent in agents]
    return f"{', '.join(first)} and {last}" if first else last


def _who(agents: Sequence[int]) -> str:
    return f"agent {agents[0]} enters" if len(agents) == 1 else f"agents {_names(agents)} enter"
