"""The live view: a panel at the foot of a terminal that says where a run is, while the plain lines scroll above it.

`follow` decides: the panel in a terminal, the plain lines alone elsewhere (a file, a pipe, TERM=dumb), nothing from the processes of
an `accelerate launch` that are not its main one. The panel goes when the run ends, however it ends, and the cursor is never
hidden, so even a process that was killed leaves the terminal usable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, OverflowMethod
from rich.live import Live
from rich.panel import Panel
from rich.text import Text
from typing_extensions import override

from envwright.agent.visible import visible
from envwright.env.config import GeneratorConfig
from envwright.env.generator import Generated
from envwright.env.rollout import Rollout
from envwright.env.summary import RolloutSummary
from envwright.training.processes import is_main
from envwright.training.settings import RunSettings
from envwright.training.view.completions_view import choose_completions, completions_table
from envwright.training.view.progress import Progress, tokens_per_second
from envwright.training.view.tracking import Tracking

if TYPE_CHECKING:
    from envwright.agent.engineers import Redesign
    from envwright.training.grpo import StepReport
    from envwright.training.warm_start import WarmStep

__all__ = ["LiveProgress", "follow", "sparkline"]

_WIDEST = 100
_LABEL = 7
_RECENT = 20
"""Steps over which speeds are averaged."""
_REFRESHES_PER_SECOND = 2.0
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*#@"


@contextmanager
def follow(say: Callable[[str], None], report_to: Sequence[str] = ()) -> Iterator[Progress]:
    """Yield what a run tells its progress to, and put everything away when the run ends or breaks off.

    Args:
        say: prints one line where there is no terminal.
        report_to: trackers, see `envwright.training.view.tracking`.

    Raises:
        UserError: a tracker cannot work here.
    """
    if not is_main():
        yield Progress(lambda _: None)
        return
    tracking = Tracking(report_to) if report_to else None
    try:
        console = _terminal()
        if console is None:
            yield Progress(say, tracking)
        else:
            progress = LiveProgress(console, tracking)
            try:
                yield progress
            finally:
                progress.close()
    finally:
        if tracking is not None:
            tracking.close()


def _terminal() -> Console | None:
    """The terminal on stdout; None when there is none, or one that cannot move its cursor."""
    if not sys.stdout.isatty():
        return None
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal and not console.is_dumb_terminal else None


@dataclass
class _State:
    """What the panel shows."""

    title: str = ""
    stages: int = 0
    steps: int = 0
    """Optimizer steps per stage."""
    stage: int | None = None
    step: int = 0
    doing: str = ""
    """What the run is at."""
    recent: list[StepReport] = field(default_factory=list)
    """The latest steps of the stage."""
    tokens_per_second: float = 0.0
    rewards: list[float] = field(default_factory=list)
    """Reward of every step that was seen."""
    base: float | None = None
    """Sampled valid rate on held-out boards before the run."""
    valid: list[float] = field(default_factory=list)
    """Sampled validation valid rate after each stage that was seen."""
    patch: str = ""
    """Summary of the latest patch."""
    began: float = 0.0
    step_at: float = 0.0
    """When the latest step ended."""
    trained: float = 0.0
    """Seconds of training in the stage."""
    stage_began: float = 0.0
    besides: list[float] = field(default_factory=list)
    """Seconds per finished stage that were not training."""

    @property
    def seconds_per_step(self) -> float:
        """Mean over the latest steps."""
        return sum(report.seconds for report in self.recent) / len(self.recent) if self.recent else 0.0

    def left(self, now: float) -> tuple[float, float]:
        """Return seconds until the stage's training ends, and until its last stage does, going by what was seen so far."""
        pace = self.seconds_per_step
        stage = max(0.0, (self.steps - self.step) * pace - (now - self.step_at if self.step < self.steps else 0.0))
        besides = sum(self.besides) / len(self.besides) if self.besides else 0.0
        coming = self.stages - 1 - (self.stage or 0)
        return stage, stage + besides + coming * (self.steps * pace + besides)


class LiveProgress(Progress):
    """Plain lines, and a panel below them.

    Args:
        console: the terminal.
        tracking: takes the same events as numbers.
        clock: seconds, for what is left.
    """

    def __init__(self, console: Console, tracking: Tracking | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(self._print, tracking)
        self._console, self._clock = console, clock
        self._live: Live | None = None
        self._waits_for_person = False
        now = clock()
        self._state = _State(began=now, stage_began=now, step_at=now)

    def close(self) -> None:
        """Take the panel away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def panel(self) -> Panel:
        """Return the panel as it is now."""
        width = min(self._console.width, _WIDEST)
        return _panel(self._state, self._clock(), width, ascii_only=self._console.options.ascii_only)

    @override
    def start(self, settings: RunSettings, folder: Path, finished: int) -> None:
        state = self._state
        state.title = f"{settings.policy}, engineer {settings.engineer}, seed {settings.seed}"
        state.stages, state.steps, state.doing = settings.num_stages, settings.steps_per_stage, "measuring the base policy"
        self._waits_for_person = settings.approval == "human"
        self._open()
        super().start(settings, folder, finished)

    @override
    def measured(self, what: str, greedy: RolloutSummary, sampled: RolloutSummary) -> None:
        if self._state.base is None:
            self._state.base = sampled.valid.rate
        super().measured(what, greedy, sampled)

    @override
    def warm_start(self, config: GeneratorConfig, boards: int, steps: int) -> None:
        self._state.doing = f"warm start, step 0 of {steps}"
        super().warm_start(config, boards, steps)

    @override
    def warm_step(self, step: WarmStep, steps: int) -> None:
        left = _duration((steps - step.step) * step.seconds)
        self._state.doing = f"warm start, step {step.step} of {steps}, loss {step.loss:.3f}, {left} left"
        super().warm_step(step, steps)

    @override
    def stage(self, number: int, config: GeneratorConfig, boards: int, efficiency: float) -> None:
        state = self._state
        state.stage, state.step, state.recent, state.doing = number, 0, [], "generating boards"
        state.stage_began, state.trained = self._clock(), 0.0
        super().stage(number, config, boards, efficiency)

    @override
    def generated(self, made: Generated, seconds: float) -> None:
        self._state.doing = "training"
        super().generated(made, seconds)

    @override
    def resumed(self, step: int, steps: int) -> None:
        self._state.doing, self._state.step = "training", step
        super().resumed(step, steps)

    @override
    def step(self, report: StepReport, steps: int) -> None:
        state = self._state
        state.step, state.step_at = report.step, self._clock()
        state.recent = [*state.recent[1 - _RECENT :], report]
        state.tokens_per_second = tokens_per_second(state.recent)
        state.rewards.append(report.reward)
        state.trained += report.seconds
        state.doing = "training" if report.step < steps else "validating"
        super().step(report, steps)
        if self._live is not None:
            self._live.refresh()

    @override
    def validated(self, greedy: RolloutSummary, sampled: RolloutSummary) -> None:
        self._state.valid.append(sampled.valid.rate or 0.0)
        super().validated(greedy, sampled)

    @override
    def completions(self, rollouts: Sequence[Rollout], count: int) -> None:
        if count:
            self._console.print(completions_table(choose_completions(rollouts, count)))

    @override
    def asking(self, engineer: str) -> None:
        self._state.doing = "the engineer reads the evidence"
        super().asking(engineer)
        if self._waits_for_person:  # who is asked here types below the last line
            self.close()

    @override
    def redesigned(self, redesign: Redesign, *, last: bool, seconds: float, engineer_seconds: float) -> None:
        state = self._state
        state.besides.append(max(0.0, self._clock() - state.stage_began - state.trained))
        if redesign.patch is not None:
            state.patch = redesign.patch.summary
        state.doing = "measuring the trained policy" if last else ""
        self._open()
        super().redesigned(redesign, last=last, seconds=seconds, engineer_seconds=engineer_seconds)

    @override
    def finish(self, *figures: Any) -> None:
        self.close()
        super().finish(*figures)

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _open(self) -> None:
        """Show the panel, with the cursor left visible."""
        if self._live is None:
            self._live = Live(console=self._console, get_renderable=self.panel, refresh_per_second=_REFRESHES_PER_SECOND, transient=True)
            self._live.start(refresh=True)
            self._console.show_cursor(True)


def _panel(state: _State, now: float, width: int, *, ascii_only: bool) -> Panel:
    """Draw the panel."""
    rows: list[tuple[str, str]] = []
    if state.stage is None:
        rows.append(("run", state.doing))
    else:
        rows.append(("stage", f"{state.stage + 1} of {state.stages}, step {state.step} of {state.steps}: {state.doing}"))
    if state.recent:
        report = state.recent[-1]
        stage_left, run_left = state.left(now)
        least = "" if state.besides else "at least "
        rows += [
            (
                "step",
                f"reward {report.reward:.3f}   valid {100 * report.valid:.0f} %   groups with signal {report.signal:.2f}   {report.tokens:.1f} tokens",
            ),
            ("speed", f"{state.seconds_per_step:.2f} s/step   {state.tokens_per_second:.0f} tokens/s"),
            ("left", f"{_duration(stage_left)} of this stage's training, {least}{_duration(run_left)} of the run"),
        ]
    if len(state.rewards) > 1:
        low, high = f"{min(state.rewards):.3f}", f"{max(state.rewards):.3f}"
        drawn = sparkline(state.rewards, max(8, width - _LABEL - 22), ascii_only=ascii_only)
        rows.append(("reward", f"{drawn}  {low} to {high}"))
    rates = [f"{100 * rate:.1f} % {where}" for rate, where in [(state.base, "held out at the start")] if rate is not None]
    if state.valid:
        rates.append(", ".join(f"{100 * rate:.1f}" for rate in state.valid) + " % at validation")
    if rates:
        rows.append(("valid", ", then ".join(rates)))
    if state.patch:
        rows.append(("patch", state.patch))
    overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"
    lines = [Text.assemble((f"{label:<{_LABEL}} ", "dim"), visible(text), no_wrap=True, overflow=overflow) for label, text in rows]
    title = Text(visible(state.title), style="bold")
    return Panel(Group(*lines), title=title, title_align="left", subtitle=_duration(now - state.began), subtitle_align="right", width=width)


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """Return values as a line of bars, at most `width` of them: each stands for the mean of as many values as all others, about.

    Args:
        values: at least one value.
        width: most bars.
        ascii_only: draw without block characters.
    """
    bars = min(width, len(values))
    edges = [index * len(values) // bars for index in range(bars + 1)]
    means = [sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
    low, high = min(means), max(means)
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    scale = (len(levels) - 1) / (high - low) if high > low else 0.0
    return "".join(levels[round((mean - low) * scale)] for mean in means)


def _duration(seconds: float) -> str:
    """Say a time: `45 s`, `12:05 min`, `3:20 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60}:{whole % 60:02d} min" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02d} h"
