"""The Compare page."""

from webapp.shared.page import Page, Section

PAGE = Page(
    __name__, "Compare", ":material/compare_arrows:", Section.UNDERSTAND, order=3, is_of_study=True, has_figures=True
)
