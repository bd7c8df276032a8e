"""Where each page's script is, for links between pages."""

from __future__ import annotations

from pathlib import Path

#: One folder per page. It must not lie beside the main script: Streamlit would take it for its older kind of pages.
PAGES = Path(__file__).parents[1] / "pages"


def page_file(name: str) -> Path:
    """The script of the page `name`, as `st.Page`, `st.page_link` and `st.switch_page` take it."""
    return PAGES / name / "page.py"
