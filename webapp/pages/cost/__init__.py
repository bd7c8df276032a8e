"""The Cost page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Cost", ":material/payments:", Section.UNDERSTAND, order=4, is_of_study=True, has_figures=True)
