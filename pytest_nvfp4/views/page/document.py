"""The page as a whole: the templates, what they are given, and the policy that guards the page."""

import base64
import functools
import hashlib
import operator
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from pytest_nvfp4.results.files import publish
from pytest_nvfp4.text import counted
from pytest_nvfp4.views import badge, marks
from pytest_nvfp4.views.comparison import Comparison
from pytest_nvfp4.views.page import content, markup, plan_views
from pytest_nvfp4.views.page.plan_views import NamedMap

if TYPE_CHECKING:
    from jinja2 import Environment


def render(comparison: Comparison, maps: Sequence[NamedMap] = ()) -> str:
    """The page's text, ending in one line feed: a function of the reports and maps alone.

    Each plan map is shown, and the difference of each two of them.
    """
    style, script = _packaged("style.css"), _packaged("script.js")
    # Only this style sheet and this script, by their digests; nothing is ever fetched or sent.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    html = (
        _environment()
        .get_template("page.html.jinja")
        .render(
            policy=policy,
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            title=" · ".join(markup.cut(column.label, 60) for column in comparison.columns),
            comparison=comparison,
            rows=comparison.rows,
            several=len(comparison.columns) > 1,
            **plan_views.context(maps),
        )
    )
    return f"<!doctype html>\n{html}\n"


def write(path: Path, comparison: Comparison, maps: Sequence[NamedMap] = ()) -> None:
    """Write the page to a file in one step; OSError where that fails."""
    publish(path, render(comparison, maps).encode("utf-8"))


@functools.cache
def _environment() -> "Environment":
    """The templates, in which every value is escaped unless it is markup already."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        finalize=markup.shown,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(marks=marks.UNICODE.marks, most_cases=content.MOST_CASES)
    environment.filters |= {
        "about": content.about,
        "badge": lambda column: Markup(badge.svg(column.badge).strip()),  # noqa: S704
        "by_case": content.grouped(operator.attrgetter("case")),
        "by_message": content.grouped(operator.attrgetter("message")),
        "command": content.command,
        "counted": counted,
        "cut": markup.cut,
        "failing": content.failing,
        "foreign": markup.foreign,
        "in_words": marks.in_words,
        "numbers": content.numbers,
        "over": content.over,
        "partly": content.partly,
        "prose": markup.prose,
        "reason": content.reason,
        "score": content.score,
        "tactic": plan_views.title,
        "tile": plan_views.tile,
        "variant": plan_views.variant,
    }
    return environment


def _template(name: str) -> str:
    """A template's text. Its line breaks and indentation are layout, and make no space on the page
    beside a tag.
    """
    text = _packaged(name).strip()
    return re.sub(r"\n\s*", " ", re.sub(r"(?<=[>}])\n\s*|\n\s*(?=[<{])", "", text))


def _packaged(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
