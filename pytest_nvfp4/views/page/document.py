"""The page as a whole: head, style, script and the policy that lets nothing else run."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from pytest_nvfp4.results.files import publish
from pytest_nvfp4.views.comparison import Comparison
from pytest_nvfp4.views.page import contract_tables, head, plan_views
from pytest_nvfp4.views.page.html import Html, cut, join, tag
from pytest_nvfp4.views.page.plan_views import NamedMap


def render(comparison: Comparison, maps: Sequence[NamedMap] = ()) -> str:
    """The page's text, ending in one line feed: a function of the reports and maps alone."""
    style, script = _packaged("style.css"), _packaged("script.js")
    # Only this style sheet and this script, by their digests; nothing is ever fetched or sent.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    labels = [cut(column.label, 60) for column in comparison.columns]
    title = f"{' · '.join(labels)} — NVFP4 plan-cache conformance"
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )
    versions = " and ".join(comparison.specifications)
    banner = tag(
        "header",
        tag("a", "Skip to the contracts", href="#contracts", class_="skip"),
        tag(
            "div",
            tag("h1", "NVFP4 plan-cache conformance"),
            tag("p", _subtitle(comparison, versions)),
        ),
        tag("button", "theme: auto", type="button", id="theme", hidden=True),
    )
    main = tag(
        "main",
        head.cards(comparison),
        contract_tables.section(comparison),
        plan_views.section(maps),
    )
    foot = tag("footer", tag("p", "Made by pytest-nvfp4. Skipped is never passed."))
    body = tag("body", banner, main, foot, tag("script", script))
    return join(Html("<!doctype html>\n"), tag("html", top, "\n", body, lang="en"), "\n")


def write(path: Path, comparison: Comparison, maps: Sequence[NamedMap] = ()) -> None:
    """Write the page to a file in one step."""
    publish(path, render(comparison, maps).encode("utf-8"))


def _subtitle(comparison: Comparison, versions: str) -> str:
    rows = comparison.rows
    parts = [f"{len(rows)} contract{'s' * (len(rows) != 1)} of specification {versions}"]
    if len(comparison.columns) > 1:
        differing = sum(row.differs for row in rows)
        parts.append(f"{len(comparison.columns)} reports")
        parts.append(f"{differing} contract{'s' * (differing != 1)} with different verdicts")
    return " · ".join(parts)


def _packaged(name: str) -> Html:
    return Html(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
