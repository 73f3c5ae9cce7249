"""Comparisons: arms at equal budget, paired by seed, their statistics and tables."""
