"""The Submit page: a study as a form or as text."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Submit", ":material/add_circle:", Section.MEASURE, order=2)
