"""The Tune page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Tune", ":material/tune:", Section.UNDERSTAND, order=6, is_of_study=True, has_figures=True)
