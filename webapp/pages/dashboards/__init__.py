"""The Dashboards page, and pinning figures to dashboards."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Dashboards", ":material/dashboard:", Section.SHARE, order=2)
