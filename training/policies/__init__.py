"""Policies: what a run trains, its notation, and the samplers that write completions with it."""
