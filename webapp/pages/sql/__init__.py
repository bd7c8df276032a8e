"""The SQL page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "SQL", ":material/database:", Section.SHARE, order=1, has_figures=True)
