"""envwright: an environment engineer redesigns the training environment between the stages of an RL run.

The import package holds four floors, lowest first, and a lower floor never imports a higher one:
`envwright.env` (boards, rules, solver, generator, configs, patches), `envwright.tools` (the typed tools),
`envwright.agent` (the engineers and their loop), `envwright.training` (policies, GRPO, the stage loop, the command line).
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
