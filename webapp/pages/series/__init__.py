"""The Series page."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Series", ":material/event_repeat:", Section.UNDERSTAND, order=6, has_figures=True)
