"""What a person follows while a run goes on: plain lines, the same in a terminal and in a log file.

The stage loop calls one method per event. `envwright.training.view.live_view` adds a panel in a terminal, `envwright.training.view.tracking`
hands the same events to trackers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright.agent.visible import visible
from envwright.env.config import GeneratorConfig
from envwright.env.generator import Generated
from envwright.env.rollout import Rollout
from envwright.env.statistics import Interval
from envwright.env.summary import RolloutSummary, Tally
from envwright.training.settings import RunSettings
from envwright.training.view.completions_view import choose_completions, completion_lines

if TYPE_CHECKING:
    from envwright.agent.engineers import Redesign
    from envwright.training.grpo import StepReport
    from envwright.training.view.tracking import Tracking
    from envwright.training.warm_start import WarmStep

__all__ = ["Progress", "format_rate", "tokens_per_second"]

_WIDTH = 100
_STEP_LINES = 8
"""Lines per stage that report training steps."""


def format_rate(interval: Interval) -> str:
    """Return a rate and its 95 % interval in percent: `61.5 % [58.4, 64.5]`."""
    if interval.rate is None or interval.low is None or interval.high is None:
        return "no data"
    return f"{100 * interval.rate:5.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def tokens_per_second(reports: Sequence[StepReport]) -> float:
    """Return the completion tokens that some steps trained on, per second of them; 0 when they took no time."""
    seconds = sum(report.seconds for report in reports)
    tokens = sum(report.completions * report.tokens for report in reports)
    return tokens / seconds if seconds else 0.0


class Progress:
    """Writes a run's progress, one line at a time, through `say`.

    Args:
        say: prints one line.
        tracking: takes the same events as numbers.
    """

    def __init__(self, say: Callable[[str], None], tracking: Tracking | None = None) -> None:
        self.say = say
        self._tracking = tracking
        self._window: list[StepReport] = []
        self._stages = 0
        self._partial_credit = False

    def start(self, settings: RunSettings, folder: Path, finished: int) -> None:
        """The run's headline."""
        grpo, self._stages = settings.grpo, settings.num_stages
        if self._tracking is not None:
            self._tracking.begin(settings, folder)
        self.say(f"envwright run: policy {settings.policy}, engineer {settings.engineer}, seed {settings.seed}, folder {folder}")
        self.say(
            f"{settings.num_stages} stages x {settings.steps_per_stage} GRPO steps x {grpo.boards_per_step} boards x "
            f"{grpo.num_generations} completions, learning rate {grpo.learning_rate:g}, {settings.threads} CPU threads"
        )
        self._partial_credit = bool(grpo.partial_credit)
        if grpo.partial_credit:
            paid = ", ".join(f"{outcome} {value:g}" for outcome, value in grpo.partial_credit.items())
            self.say(f"partial credit is on ({paid}): a trial of it taught a policy to stand still within 60 steps; watch what fails")
        if finished:
            self.say(f"resuming: {finished} of {settings.num_stages} stages are done")

    def damaged(self, faults: list[str]) -> None:
        """Checkpoints that were passed over, and why."""
        for found in faults:
            self.say(f"   not used: {found}; going on from the newest whole checkpoint before it")

    def resumed(self, step: int, steps: int) -> None:
        """A stage goes on from a checkpoint inside it."""
        if self._tracking is not None:
            self._tracking.resumed(step)
        self.say(f"   going on after step {step} of {steps}")

    def measured(self, what: str, greedy: RolloutSummary, sampled: RolloutSummary) -> None:
        """A policy's rates on fixed boards."""
        self.say(f"{what}: valid {format_rate(greedy.valid)} greedy, {format_rate(sampled.valid)} sampled")

    def stage(self, number: int, config: GeneratorConfig, boards: int, efficiency: float) -> None:
        """A stage begins: its knobs, and what its rewards are."""
        self._window = []
        if self._tracking is not None:
            self._tracking.stage(number, config)
        self.say("")
        self.say(f"== stage {number} ({number + 1} of {self._stages}): knobs of its {boards} boards, {config.num_agents} agents each ==")
        self.say("   map      share   holes   wait-required")
        for bucket, knobs in config.buckets():
            self.say(
                f"   {bucket + 'x' + bucket:<8}{_percent(knobs.data_ratio)} {_percent(knobs.hole_ratio)}   {_percent(knobs.wait_ratio)}"
            )

        other = "0, or its partial credit" if self._partial_credit else "0"
        self.say(f"   reward of a valid plan: 1{f' + {efficiency:g} x optimum / cost' if efficiency else ''}; of any other: {other}")

    def generated(self, made: Generated, seconds: float) -> None:
        """The stage's boards are there."""
        repeated = {bucket: record.repeated for bucket, record in made.acceptance.items() if record.repeated}
        notes = ", ".join(f"{count} repeats at {bucket}x{bucket}, which has no more new ones" for bucket, count in repeated.items())
        self.say(f"   boards generated in {seconds:.1f} s{'; ' + notes if notes else ''}")

    def step(self, report: StepReport, steps: int) -> None:
        """A training step is done; some are shown, as means since the line before."""
        if self._tracking is not None:
            self._tracking.step(report, tokens_per_second([report]))
        self._window.append(report)
        every = max(1, steps // _STEP_LINES)
        if report.step % every and report.step != steps:
            return
        n = len(self._window)
        reward, signal, tokens, seconds = (
            sum(getattr(entry, name) for entry in self._window) / n for name in ("reward", "signal", "tokens", "seconds")
        )
        left = (steps - report.step) * seconds
        self.say(
            f"   step {report.step:>3}/{steps}  reward {reward:.3f}  groups with signal {signal:.2f}  tokens {tokens:.1f}  "
            f"{seconds:.2f} s/step  {f'{left:.0f} s left' if left else 'done'}  {tokens_per_second(self._window):.0f} tokens/s"
        )
        self._window = []

    def left_out(self, boards: int, what: str) -> None:
        """Boards whose prompts are too long were left out."""
        if boards:
            self.say(f"   {boards} boards of {what} left out: their prompts are longer than grpo.max_prompt_length or the context allows")

    def warm_start(self, config: GeneratorConfig, boards: int, steps: int) -> None:
        """The warm start begins."""
        sizes = ", ".join(f"{bucket}x{bucket}" for bucket in config.sizes)
        self.say("")
        self.say(f"== warm start: {steps} steps of supervised fine-tuning on the solver's plans of {boards} boards ({sizes}) ==")

    def warm_step(self, step: WarmStep, steps: int) -> None:
        """A step of the warm start is done; some are shown."""
        if self._tracking is not None:
            self._tracking.warm_step(step)
        if step.step % max(1, steps // _STEP_LINES) == 0 or step.step == steps:
            self.say(
                f"   step {step.step:>3}/{steps}  loss {step.loss:.3f}  answer tokens right {100 * step.accuracy:.1f} %  {step.seconds:.2f} s/step"
            )

    def validated(self, greedy: RolloutSummary, sampled: RolloutSummary) -> None:
        """Validation after a stage."""
        if self._tracking is not None:
            self._tracking.validated(greedy, sampled)
        self.say("   validation      sampled valid           optimal   greedy valid   most frequent failure")
        rows: list[tuple[str, Tally, Tally]] = [(f"{b}x{b}", tally, greedy.by_size[b]) for b, tally in sampled.by_size.items()]
        rows.append(("all", sampled, greedy))
        for name, tally, decoded in rows:
            failures = {outcome: count for outcome, count in tally.outcomes.items() if outcome not in ("optimal", "suboptimal")}
            worst = max(failures, key=lambda outcome: failures[outcome], default="")
            shown = f"{worst} ({failures[worst]} of {tally.n})" if worst else "none"
            optimal, valid = tally.optimal.rate or 0.0, decoded.valid.rate or 0.0
            self.say(f"   {name:<12}{format_rate(tally.valid):>24}   {100 * optimal:5.1f} %       {100 * valid:5.1f} %   {shown}")

    def completions(self, rollouts: Sequence[Rollout], count: int) -> None:
        """Some of a stage's validation completions with their boards; nothing for a count of 0."""
        if count:
            for line in completion_lines(choose_completions(rollouts, count)):
                self.say(line)

    def asking(self, engineer: str) -> None:
        """The engineer starts to work."""
        self.say(f"   engineer {engineer} reads the evidence ...")

    def redesigned(self, redesign: Redesign, *, last: bool, seconds: float, engineer_seconds: float) -> None:
        """The engineer (or the gate) has decided, and what that cost."""
        if redesign.patch is None:
            if not last:
                self.say(f"   config kept ({redesign.stop_reason}): {visible(redesign.note)}")
        else:
            self.say(f"   patch ({redesign.stop_reason}): {visible(redesign.patch.summary)}")
            reasons = {edit.path: edit.reason for edit in redesign.patch.edits}
            for change in redesign.diff:
                self.say(f"     {change.path:<22} {change.before:.3f} -> {change.after:.3f}")
                reason = reasons.get(change.path, "scaled so that the shares sum to 1")
                for line in textwrap.wrap(visible(reason), _WIDTH):
                    self.say(f"       {line}")
        usage = redesign.usage
        if usage.requests:
            tokens = f", {usage.prompt_tokens} tokens read and {usage.completion_tokens} written" if usage.total_tokens else ""
            self.say(
                f"   the engineer's session: {usage.requests} requests, {usage.tool_calls} tool calls{tokens}, {engineer_seconds:.0f} s"
            )
        self.say(f"   stage took {seconds:.0f} s")

    def finish(
        self,
        base_greedy: RolloutSummary,
        base_sampled: RolloutSummary,
        final_greedy: RolloutSummary,
        final_sampled: RolloutSummary,
        stages: list[dict[str, Any]],
        folder: Path,
    ) -> None:
        """The held-out table, before and after."""
        if self._tracking is not None:
            self._tracking.finish(base_greedy, base_sampled, final_greedy, final_sampled)
        self.say("")
        self.say(
            f"== held-out boards ({base_greedy.n}, in no training or validation set): valid plans before and after {len(stages)} stages =="
        )
        self.say("                          before                  after                   change")
        rows: list[tuple[str, Tally, Tally]] = [("greedy, all", base_greedy, final_greedy), ("sampled, all", base_sampled, final_sampled)]
        rows += [(f"sampled, {b}x{b}", base_sampled.by_size[b], final_sampled.by_size[b]) for b in base_sampled.by_size]
        names = {"required": "sampled, wait needed", "free": "sampled, no wait"}
        rows += [(names[label], base_sampled.by_wait[label], final_sampled.by_wait[label]) for label in base_sampled.by_wait]
        for name, before, after in rows:
            change = 100 * ((after.valid.rate or 0.0) - (before.valid.rate or 0.0))
            self.say(f"   {name:<22}{format_rate(before.valid):<24}{format_rate(after.valid):<24}{change:+5.1f} points")
        before_optimal, after_optimal = base_greedy.optimal.rate or 0.0, final_greedy.optimal.rate or 0.0
        self.say(f"   greedy, optimal plans: {100 * before_optimal:.1f} % -> {100 * after_optimal:.1f} %")
        self.say(f"   everything is in {folder}: summary.json, stages/*/engineer/patch.json, stages/*/checkpoint")


def _percent(value: float) -> str:
    return f"{100 * value:5.1f} %"
