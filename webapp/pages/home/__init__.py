"""The Home page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Home", ":material/home:", Section.MEASURE, order=1, has_figures=True)
