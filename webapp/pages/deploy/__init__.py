"""The Advice page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Advice", ":material/lightbulb:", Section.UNDERSTAND, order=5, is_of_study=True, has_figures=True)
