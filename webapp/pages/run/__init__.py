"""The Run page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Run", ":material/timeline:", Section.UNDERSTAND, order=7, is_of_study=True, has_figures=True)
