"""The Results page."""

from webapp.shared.page import Page, Section

PAGE = Page(
    __name__, "Results", ":material/monitoring:", Section.UNDERSTAND, order=1, is_of_study=True, has_figures=True
)
