"""The Explore page."""

from webapp.shared.page import Page, Section

PAGE = Page(
    __name__, "Explore", ":material/query_stats:", Section.UNDERSTAND, order=2, is_of_study=True, has_figures=True
)
