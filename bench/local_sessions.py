"""Sessions of a model in process over real evidence: how each ends, what it costs. Prints one JSON line per session and a summary.

    python bench/local_sessions.py --engineer local:smollm2 --sessions 20

The evidence is made of generated boards and the pocket policy's rollouts on them, another seed for every session.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.limits import Limits
from envwright.agent.transcript import read_transcript
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.generator import generate
from envwright.env.jsonio import dump_json
from envwright.env.schemas import schema_problems
from envwright.tools.evidence import Evidence
from envwright.training.evaluation import evaluate
from envwright.training.policies.policy import load_policy


def main() -> int:
    """Run the sessions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engineer", default="local:smollm2")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first session")
    parser.add_argument("--instances", type=int, default=64, help="boards of one session's evidence")
    parser.add_argument("--requests", type=int, help="request_limit; default: the engineer's own")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("runs/local-sessions"), help="folder for the transcripts")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    limits = Limits(request_limit=arguments.requests) if arguments.requests else None
    engineer = make_engineer(arguments.engineer, limits=limits, temperature=arguments.temperature)
    assert isinstance(engineer, ModelEngineer)
    engineer.check()
    ends: Counter[str] = Counter()
    processor = []
    for number in range(arguments.first, arguments.first + arguments.sessions):
        evidence = _evidence(number, arguments.instances)
        path = arguments.out / f"{number:02d}.jsonl"
        begun, begun_cpu = time.monotonic(), time.process_time()
        redesign = engineer.design(evidence, path)
        seconds, cpu = time.monotonic() - begun, time.process_time() - begun_cpu
        recorded = read_transcript(path).end
        patch = None if redesign.patch is None else redesign.patch.to_json()
        sound = recorded.patch == redesign.patch and (patch is None or not schema_problems("patch", patch))
        ends[redesign.stop_reason.value if sound else "NOT SOUND"] += 1
        processor.append(cpu)
        row = {"session": number, "stop_reason": redesign.stop_reason.value, "sound": sound, "edits": len(redesign.diff)}
        row |= {"usage": redesign.usage.to_json(), "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "note": redesign.note[:120]}
        print(dump_json(row), flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    mean = round(sum(processor) / len(processor), 1)
    print(dump_json({"ends": ends, "cpu_seconds_per_session": mean, "peak_mib": round(memory)}))
    return 1 if ends["NOT SOUND"] else 0


def _evidence(seed: int, instances: int) -> Evidence:
    """Validation rollouts of the pocket policy on fresh boards."""
    knobs = {"data_ratio": 0.25, "hole_ratio": 0.2, "wait_ratio": 0.25}
    config = GeneratorConfig.parse({"num_agents": 2, "sizes": {str(size): knobs for size in (3, 4, 5, 6)}}, "bench")
    boards = generate(config, instances, seed=seed, split=Split.VALIDATION).instances
    rollouts = evaluate(load_policy("pocket"), boards, stage=0, split=Split.VALIDATION, samples=2, seed=seed)
    return Evidence(config=config, rollouts=tuple(rollouts), seed=seed)


if __name__ == "__main__":
    sys.exit(main())
