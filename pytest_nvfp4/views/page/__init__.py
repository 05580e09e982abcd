"""A comparison as one self-contained HTML page: `write` makes it.

The page needs no network, no other file and, to be read, no JavaScript. `html` is the one place
where text becomes markup; `head` sums each report up, `contract_tables` shows verdicts and
failures, `plan_views` the maps.
"""

from pytest_nvfp4.views.page.document import render, write
from pytest_nvfp4.views.page.plan_views import NamedMap

__all__ = ["NamedMap", "render", "write"]
