"""The Jobs page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Jobs", ":material/list_alt:", Section.MEASURE, order=3)
