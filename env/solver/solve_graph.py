"""`solve_graph`: agents on any undirected graph, by the same rules and with the same answers as on a grid."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

from envwright.env.solver.answer import answer
from envwright.env.solver.budget import Budget
from envwright.env.solver.graphboard import GraphBoard, GraphLike
from envwright.env.solver.solution import GraphSolution, Objective
from envwright.env.solver.solve import check_counts, read_objective

NodeT = TypeVar("NodeT", bound=Hashable)


def solve_graph(
    graph: GraphLike[NodeT],
    starts: Sequence[NodeT],
    goals: Sequence[NodeT],
    *,
    objective: Objective | str = Objective.SUM_OF_COSTS,
    time_limit: float | None = None,
    node_limit: int | None = None,
    label_waits: bool = True,
    break_ties: bool = True,
) -> GraphSolution[NodeT]:
    """Finds a plan on a graph that is minimal for the objective, or proves that there is none.

    In a timestep each agent stays or goes along an edge; every edge takes one timestep, weights are not read. No two agents
    may share a node or exchange nodes along an edge; following, and rotations of three or more, are legal.

    Args:
        graph: An undirected `networkx` graph; self-loops and parallel edges change nothing.
        starts: Start node per agent; distinct.
        goals: Goal node per agent; distinct. It may be the agent's own start, or another agent's.
        objective: What to minimise: an `Objective` or its value, "sum_of_costs" or "makespan".
        time_limit: Seconds, labels included; None reads no clock, and the result is deterministic.
        node_limit: Search nodes, labels included; None leaves the built-in bounds.
        label_waits: Decide `wait_required`.
        break_ties: Decide the figure that the objective leaves open, and return a plan that has it.

    Returns:
        The answer; its plan holds nodes of the graph.

    Raises:
        ValueError: The graph is directed, there are different numbers of starts and goals or no agents, a start or goal is
            no node, two starts or two goals are equal, or the objective is unknown.
    """
    objective = read_objective(objective)
    if graph.is_directed():
        raise ValueError("the graph must be undirected, got a directed one; pass graph.to_undirected()")
    check_counts(starts, goals)
    board = GraphBoard(graph)
    first, last = _indices(board, "start", starts), _indices(board, "goal", goals)
    found = answer(board, first, last, objective, Budget(time_limit, node_limit), label_waits=label_waits, break_ties=break_ties)
    nodes: Sequence[NodeT] = board.nodes
    return GraphSolution(
        status=found.status,
        sum_of_costs=found.sum_of_costs,
        makespan=found.makespan,
        wait_required=found.wait_required,
        plan=None if found.plan is None else tuple(tuple(nodes[index] for index in path) for path in found.plan),
        sum_of_distances=found.sum_of_distances,
        undecided=found.undecided,
        objective=objective,
    )


def _indices(board: GraphBoard[NodeT], what: str, nodes: Sequence[NodeT]) -> list[int]:
    """Returns the bit positions of distinct nodes, or raises a ValueError that names the bad one."""
    seen: dict[int, int] = {}
    for agent, node in enumerate(nodes):
        index = board.index.get(node)
        if index is None:
            raise ValueError(f"{what} of agent {agent} {node!r} is not a node of the graph")
        if index in seen:
            raise ValueError(f"agents {seen[index]} and {agent} have the same {what} {node!r}")
        seen[index] = agent
    return list(seen)
