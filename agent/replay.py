"""Plays the assistant messages of a transcript again, and checks that they lead to the same patch."""

from __future__ import annotations

from pathlib import Path

from envwright.agent.scripted import ScriptedModel
from envwright.agent.transcript import Recording, read_transcript
from envwright.env.errors import UserError
from envwright.env.patch import Patch

__all__ = ["ReplayModel", "find_transcript"]


class ReplayModel(ScriptedModel):
    """Plays a recording.

    Args:
        recording: the transcript.

    Raises:
        UserError: the transcript holds no assistant message.
    """

    def __init__(self, recording: Recording) -> None:
        if not recording.assistant_messages:
            raise UserError(f"{recording.path}: the transcript holds no assistant message, so there is nothing to replay")
        super().__init__(recording.assistant_messages, name=recording.header.model)
        self.recording = recording

    def check(self, patch: Patch | None) -> None:
        """Compare the patch that the replay led to with the recorded one.

        Raises:
            UserError: they differ: the evidence or the config is another one than at the time.
        """
        if patch != self.recording.end.patch:
            then, now = _words(self.recording.end.patch), _words(patch)
            raise UserError(
                f"{self.recording.path}: the transcript ended with {then} and its replay with {now}; "
                "replay it on its own evidence and config"
            )


def _words(patch: Patch | None) -> str:
    return "no patch" if patch is None else f"a patch of {len(patch.edits)} edits ({', '.join(edit.path for edit in patch.edits[:3])})"


def find_transcript(path: Path, stage: int) -> Recording:
    """Read the transcript at `path`: a file, or a run folder, whose transcript of the stage is taken.

    Raises:
        UserError: there is none, or it is cut off.
    """
    return read_transcript(path / "stages" / f"{stage:02d}" / "engineer" / "transcript.jsonl" if path.is_dir() else path)
