"""Figures that the paper reports, to be shown beside one's own: measured on the paper's boards, which are not published.

Source: "From Trainee to Trainer" (arXiv 2606.17682), the "Sum" column of its benchmark: the plain mean over map sizes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["REPORTED", "SOURCE", "reported_json"]

SOURCE = "arXiv 2606.17682"

REPORTED: dict[str, dict[int, tuple[float, float]]] = {
    "Qwen3-4B, base": {3: (14.83, 14.00), 4: (3.43, 3.05), 5: (1.44, 1.22)},
    "Qwen3-4B, GRPO on the random config": {3: (40.42, 26.08), 4: (26.67, 16.10), 5: (15.11, 9.11)},
    "Qwen3-4B, GRPO + environment engineer": {3: (51.67, 31.67), 4: (33.14, 21.33), 5: (18.67, 11.00)},
    "GPT-5.4": {3: (32.50, 20.58), 4: (17.05, 10.86), 5: (9.11, 6.00)},
    "Grok-4.2": {3: (33.42, 21.00), 4: (23.43, 15.33), 5: (12.89, 8.78)},
    "Gemini-3.1-Pro": {3: (24.50, 15.33), 4: (12.95, 10.10), 5: (4.78, 3.56)},
    "Kimi-K2.5": {3: (46.17, 29.25), 4: (26.95, 17.90), 5: (13.47, 8.78)},
}
"""Model -> agents -> (valid, optimal) in percent. The paper gives 13.47 for Kimi-K2.5 with 5 agents; its cells average 14.22."""


def reported_json() -> dict[str, Any]:
    """Return the reported figures as plain JSON data, rates from 0 to 1 as everywhere else."""
    rows = [
        {
            "name": name,
            "sum": {
                str(agents): {"valid": round(valid / 100, 4), "optimal": round(optimal / 100, 4)}
                for agents, (valid, optimal) in figures.items()
            },
        }
        for name, figures in REPORTED.items()
    ]
    return {"source": SOURCE, "boards": "the paper's own, not published", "rows": rows}
