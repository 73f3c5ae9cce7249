"""What a person follows while a run goes on: plain lines, a live panel, completions with boards, trackers."""
