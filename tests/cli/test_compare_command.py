"""`envwright compare` before any work: plans, and bad input in one line. Runs are in tests/training/compare/."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Command

SMALL = ("--set", "num_stages=2", "--set", "steps_per_stage=2")


def test_a_dry_run_tells_arms_seeds_boards_and_what_is_shared(command: Command) -> None:
    done = command(
        "compare", "demo", "--engineers", "rule,fixed", "--arm", "valid-only:grpo.efficiency_weight=0", "--seeds", "0,2", "--dry-run"
    )
    assert (done.code, done.err) == (0, "")
    assert "preset demo, 3 arms x 2 seeds (0, 2) = 6 runs" in done.out
    assert "rule                       3     15360       122880  engineer rule" in done.out
    assert "engineer rule, grpo.efficiency_weight=0" in done.out
    assert "2 first stages are trained once and shared, which saves 2 of 18 stages" in done.out
    assert "measured on the same 400 held-out and 240 validation boards" in done.out
    assert "differences are paired by seed and board; against fixed" in done.out
    assert not Path("runs").exists()


def test_a_dry_run_as_json_is_the_plan(command: Command) -> None:
    done = command(
        "compare",
        "demo",
        *SMALL,
        "--engineers",
        "rule,random",
        "--arm",
        "raw:context=F,H,gate_tolerance=1",
        "--seeds",
        "3",
        "--dry-run",
        "--json",
    )
    plan = done.json
    assert plan["baseline"] == "rule"
    assert [arm["name"] for arm in plan["arms"]] == ["rule", "random", "raw"]
    assert plan["arms"][2]["overrides"] == {"context": "F,H", "gate_tolerance": 1.0}
    assert list(plan["shared"].values()) == [["rule", "random", "raw"]]
    assert plan["command"][:3] == ["envwright", "compare", "demo"]
    assert plan["settings"]["num_stages"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "0"), "nothing to compare: give --engineers A,B,... or --arm NAME:KEY=VALUE"),
        (("--engineers", "rule,,fixed", "--seeds", "0"), "--engineers 'rule,,fixed': an empty name"),
        (("--engineers", "rule,ruel", "--seeds", "0"), "arm 'ruel': no engineer 'ruel', did you mean 'rule'?"),
        (("--engineers", "rule,fixed,rule", "--seeds", "0"), "arm 'rule' is there twice"),
        (("--engineers", "rule,fixed", "--seeds", "0,x"), "--seeds '0,x': 'x' is no seed; expected whole numbers from 0"),
        (("--engineers", "rule,fixed", "--seeds", "0,1,0"), "--seeds '0,1,0': seed 0 is there twice"),
        (("--engineers", "rule,fixed", "--seeds", ""), "--seeds '': '' is no seed"),
        (("--engineers", "rule,fixed", "--seeds", "-1"), "--seeds '-1': '-1' is no seed"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--baseline", "none"), "--baseline none: no such arm; the arms are rule, fixed"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--set", "seed=3"), "seed=3: seeds are given by --seeds"),
        (("--engineers", "rule", "--arm", "fast", "--seeds", "0"), "--arm 'fast': expected NAME:KEY=VALUE"),
        (("--engineers", "rule", "--arm", "a/b:seed_=1", "--seeds", "0"), "arm 'a/b': a name has 1 to 64 letters"),
        (("--engineers", "rule", "--arm", "fast:grpo.rate=1", "--seeds", "0"), "arm 'fast': --set grpo.rate: no such setting"),
        (("--engineers", "rule", "--arm", "wide:evaluation.samples=9", "--seeds", "0"), "'rule' and 'wide' differ in evaluation.samples"),
        (("--engineers", "rule", "--arm", "me:approval=human", "--seeds", "0"), "arm 'me': approval=human would wait for a person"),
        (("--engineers", "rule,policy", "--seeds", "0"), "arm 'policy': "),
        (("--engineers", "rule,fixed", "--seeds", "0", "--jobs", "0"), "--jobs must be at least 1, got 0"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--set", "sede=1"), "envwright compare: --set sede: no such setting"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--threads", "0"), "threads: Input should be greater than or equal to 1"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--out", "."), ". exists already: continue it with --resume"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--out", "config.json"), "config.json exists already and is no folder"),
        (("--engineers", "rule,fixed", "--seeds", "0", "--out", "new", "--resume"), "new holds no comparison to resume"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(command: Command, folder: Path, arguments: tuple[str, ...], message: str) -> None:
    before = sorted(folder.iterdir())
    done = command("compare", "demo", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert [path for path in sorted(folder.iterdir()) if path.name != ".lock"] == before


def test_an_engineer_s_name_becomes_a_folder_s_name(command: Command) -> None:
    done = command("compare", "demo", "--engineers", "fixed,replay:some/where.jsonl", "--seeds", "0", "--dry-run")
    assert done.code == 2
    assert "arm 'replay-some-where.jsonl': some/where.jsonl: no such file" in done.err
