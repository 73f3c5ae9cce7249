"""Speed of the generator: labelled boards per second of CPU time, stratum by stratum, and the targets for whole files.

    python bench/generator.py                 # everything, a few minutes
    python bench/generator.py targets         # 10,000 boards, peak memory, import
    python bench/generator.py strata --agents 2 3 --holes 0.2 0.45

CPU time of one process throughout, so that a busy machine does not count against it. The strata are a Markdown table: boards
per second, wait-free / wait-required; `*` where boards are constructed around a crossing, `w` where a crowd walks, `x`
where there are none.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence

from envwright.env.config import GeneratorConfig
from envwright.env.errors import InfeasibleError
from envwright.env.generator import generate

SMALLEST = {1: 3, 2: 3, 3: 3, 4: 4, 5: 5, 6: 5, 7: 5, 8: 6, 9: 6, 10: 6}
LARGEST = 10
HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
SECONDS = 0.3
FEWEST, MOST = 4, 200
_MARKS = {"construction": "*", "walk": "w"}

_IMPORT = (
    "import sys, time; begin = time.process_time(); import envwright.env.generator; "
    "print(time.process_time() - begin, 'torch' in sys.modules)"
)
_MEMORY = """
import resource
from envwright.env.config import GeneratorConfig
from envwright.env.generator import generate
knobs = {"hole_ratio": 0.2, "wait_ratio": 0.5, "data_ratio": 0.125}
generate(GeneratorConfig.parse({"num_agents": 2, "sizes": {str(size): knobs for size in range(3, 11)}}, "bench"), 4000, seed=0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def config_of(agents: int, sizes: tuple[int, ...], hole_ratio: float, wait_ratio: float) -> GeneratorConfig:
    """Sizes in equal shares, all with the same knobs."""
    knobs = {"hole_ratio": hole_ratio, "wait_ratio": wait_ratio, "data_ratio": 1 / len(sizes)}
    return GeneratorConfig.parse({"num_agents": agents, "sizes": {str(size): knobs for size in sizes}}, "bench")


def stratum(size: int, agents: int, hole_ratio: float, wait_required: bool) -> str:
    """Measure one stratum: a few boards to see how long they take, then as many as fit the time."""
    config = config_of(agents, (size,), hole_ratio, float(wait_required))
    try:
        generate(config, 1, seed=2)
        begin = time.process_time()
        generate(config, FEWEST, seed=0)
        each = (time.process_time() - begin) / FEWEST
        number = max(FEWEST, min(MOST, int(SECONDS / each)))
        begin = time.process_time()
        record = generate(config, number, seed=1).acceptance[str(size)]
    except InfeasibleError:
        return "x"
    rate = number / (time.process_time() - begin)
    return f"{rate:.0f}" + "".join(mark for name, mark in _MARKS.items() if record.samplers[name])


def strata(agents: int, hole_ratios: Sequence[float]) -> None:
    """Print a table row per size with so many agents; the samplers are chosen before the clock runs."""
    for size in range(SMALLEST[agents], LARGEST + 1):
        cells = []
        for hole_ratio in hole_ratios:
            kinds = (False,) if agents == 1 else (False, True)
            cells.append(" / ".join(stratum(size, agents, hole_ratio, wait_required) for wait_required in kinds))
        print(f"| {agents} | {size}x{size} | {' | '.join(cells)} |", flush=True)


def ten_thousand() -> float:
    """CPU seconds of 10,000 labelled boards at wait ratio 0.75 over sizes 5 to 10 and 2 to 5 agents, 20 % holes."""
    total = 0.0
    for agents in (2, 3, 4, 5):
        begin = time.process_time()
        generate(config_of(agents, (5, 6, 7, 8, 9, 10), 0.2, 0.75), 2_500, seed=0)
        spent = time.process_time() - begin
        print(f"  2,500 boards with {agents} agents: {spent:.1f} s, {2_500 / spent:.0f} boards/s", flush=True)
        total += spent
    return total


def _python(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def targets() -> dict[str, float]:
    """Measure what the generator has to reach as a whole."""
    imports = [_python(_IMPORT) for _ in range(3)]
    if any(loaded == "True" for _, loaded in imports):
        raise SystemExit("importing the generator imported torch")
    figures = {
        "import_seconds": min(float(seconds) for seconds, _ in imports),
        "peak_memory_mb_4000_boards": float(_python(_MEMORY)[0]),
        "ten_thousand_boards_seconds": ten_thousand(),
    }
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> None:
    """Run the benchmark that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["all", "targets", "strata"], default="all")
    parser.add_argument("--agents", type=int, nargs="+", choices=list(SMALLEST), default=list(SMALLEST), help="strata with so many agents")
    parser.add_argument("--holes", type=float, nargs="+", default=list(HOLE_RATIOS), help="shares of holes")
    arguments = parser.parse_args()
    part = arguments.part
    print(f"Python {platform.python_version()}, {platform.machine()}")
    if part != "strata":
        print(json.dumps(targets()), flush=True)
    if part != "targets":
        print(f"| agents | size | {' | '.join(f'{ratio:.0%} holes' for ratio in arguments.holes)} |")
        print("|---" * (2 + len(arguments.holes)) + "|", flush=True)
        for agents in arguments.agents:
            strata(agents, arguments.holes)


if __name__ == "__main__":
    main()
