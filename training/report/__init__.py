"""The report of a run or of a comparison: one self-contained HTML page, and its plots as PNG files."""
