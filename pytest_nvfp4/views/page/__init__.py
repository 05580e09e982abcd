"""A comparison as one self-contained HTML page: `write` makes it.

The page needs no network, no other file and, to be read, no JavaScript. The templates are its
markup, and `document` renders them. `content` and `plan_views` are what they show of reports and of
plan maps; `markup` turns text into HTML.
"""

from pytest_nvfp4.views.page.document import render, write
from pytest_nvfp4.views.page.plan_views import NamedMap

__all__ = ["NamedMap", "render", "write"]
