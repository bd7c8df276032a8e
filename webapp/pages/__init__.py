"""One folder per page: `PAGE` in its `__init__.py` declares it, `page.py` is the script that Streamlit runs."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from webapp.shared.page import Page, Section


def _declared() -> list[Page]:
    """Return the pages in the order of the navigation."""
    folders = [module.name for module in pkgutil.iter_modules(__path__)]
    pages: list[Page] = [importlib.import_module(f"{__name__}.{folder}").PAGE for folder in folders]
    sections = list(Section)
    return sorted(pages, key=lambda page: (sections.index(page.section), page.order))


#: Every page by its address.
PAGES: Mapping[str, Page] = {page.address: page for page in _declared()}
#: Addresses of today by former ones.
FORMER: Mapping[str, str] = {former: page.address for page in PAGES.values() for former in page.former}
#: The page at the root.
DEFAULT = PAGES["home"]
