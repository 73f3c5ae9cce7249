"""The competence-frontier rule in direct mode: its plan on the evidence, as one answer.

Without tools there is no trial, so edits that only a trial can justify are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envwright.agent.evidence_text import SHOWN_BREAKDOWN, count_failures
from envwright.agent.frontier import Counts, PlannedEdit, SizeEvidence, plan_edits
from envwright.agent.messages import AssistantMessage, Message
from envwright.agent.models import Completion
from envwright.agent.rule import SUMMARY, told_edit, told_summary
from envwright.env.config import GeneratorConfig
from envwright.env.jsonio import dump_json
from envwright.env.patch import check_patch
from envwright.tools.evidence import Evidence

__all__ = ["DirectRule"]


class DirectRule:
    """The rule, which reads the evidence itself.

    Args:
        evidence: what it may see.
        config_wanted: answer with the whole config, not with a patch.
        cites: whether the breakdown was shown, so that edits may cite it.
    """

    def __init__(self, evidence: Evidence, *, config_wanted: bool = False, cites: bool = True) -> None:
        self.evidence, self.config_wanted, self.cites = evidence, config_wanted, cites
        self._asked = 0

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return "rule"

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:  # noqa: ARG002  (a fixed answer)
        """Answer the request for a summary."""
        return Completion(AssistantMessage(content=SUMMARY))

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:  # noqa: ARG002  (it knows the shape)
        """Return the plan; asked again, since the plan was refused, keep the config."""
        self._asked += 1
        config = self.evidence.config
        edits = _plan(config, self.evidence) if self._asked == 1 else []
        cited = [SHOWN_BREAKDOWN] if self.cites else []
        summary = told_summary(edits) if edits else "no size is clearly off the frontier" if self._asked == 1 else "the plan was refused"
        patch = {"summary": summary, "edits": [told_edit(edit, cited) for edit in edits]}
        return Completion(AssistantMessage(content=dump_json(self._whole(patch, cited) if self.config_wanted else patch)))

    def _whole(self, patch: dict[str, Any], cited: list[str]) -> dict[str, Any]:
        after = check_patch(self.evidence.config, patch).config
        return {"summary": patch["summary"], "evidence": cited, "sizes": after.to_json()["sizes"]}


def _plan(config: GeneratorConfig, evidence: Evidence) -> list[PlannedEdit]:
    counted = count_failures(evidence)
    kinds: dict[str, dict[bool, Counts]] = {}
    for row in counted.rows if counted is not None else ():
        kinds.setdefault(str(row.group["size"]), {})[bool(row.group["wait_required"])] = Counts(row.outcomes)
    sizes = {bucket: SizeEvidence(wait=found.get(True), free=found.get(False)) for bucket, found in kinds.items()}
    return [edit for edit in plan_edits(config, sizes) if not edit.tentative]
