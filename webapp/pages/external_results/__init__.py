"""The External results page: imported result files and published figures."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "External results", ":material/groups:", Section.SHARE, order=3)
