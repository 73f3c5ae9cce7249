"""The environment engineers: chat models, the tool loop, transcripts, and the baselines that need no model."""
