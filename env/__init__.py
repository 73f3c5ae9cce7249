"""MAPF-FrozenLake: boards, rules, exact solver, generator, notations, grading, configs and patches. No torch, no LLM."""
