"""Policies, GRPO, evaluation, the stage loop, the run folder and the command line. Importing it does not import torch."""
