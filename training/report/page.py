"""`envwright report`: from a folder to its page and the plots beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envwright import __version__
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.jsonio import write_atomic
from envwright.training.report.look import css_variables
from envwright.training.report.parts import Page, plot_table

__all__ = ["Report", "render", "write_report"]

_TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written."""

    kind: str
    """run or comparison."""
    page: Path
    """The HTML page."""
    pictures: tuple[Path, ...]
    """The plots as PNG files."""
    headline: str
    """What was found, in one sentence."""
    warnings: tuple[str, ...]
    """What is missing."""


def write_report(folder: Path, out: Path | None = None) -> Report:
    """Write the page of a run or of a comparison, and its plots as PNG files into a folder of the page's name.

    Args:
        folder: a run folder (run.json) or a comparison (compare.json).
        out: the page; the default is `report.html` in the folder.

    Raises:
        UserError: the folder is neither, a file of it is damaged, or the page cannot be written.
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    place = folder / "report.html" if out is None else out
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{place}: a report is an HTML page; give --out a name that ends in .html")
    page = _page_of(folder, place)
    text = render(page)
    pictures = []
    for plot in page.plots:
        pictures.append(place.with_suffix("") / f"{plot.name}.png")
        write_atomic(pictures[-1], plot.png)
    write_atomic(place, text)
    return Report(page.kind, place, tuple(pictures), page.lead[0], page.warnings)


def _page_of(folder: Path, place: Path) -> Page:
    """Read the folder and lay out its page."""
    if (folder / "run.json").is_file():
        from envwright.training.report.data import RunData
        from envwright.training.report.run_page import run_page

        return run_page(RunData(folder))
    if (folder / "compare.json").is_file():
        from envwright.training.report.comparison_page import comparison_page

        return comparison_page(folder, place)
    raise UserError(
        f"{folder}: neither a run (run.json) nor a comparison (compare.json); give the folder that `envwright run` or `compare` wrote"
    )


def render(page: Page) -> str:
    """Return the page as HTML; whatever a policy, an engineer or a person wrote is escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(error.name or "jinja2", "report", "envwright report") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
    style = environment.get_template("style.css.j2").render(colours=css_variables())
    template = environment.get_template("report.html.j2")
    return template.render(page=page, style=style, plot_table=plot_table, version=__version__) + "\n"
