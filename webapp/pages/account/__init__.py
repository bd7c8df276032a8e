"""The visitor's own links, tokens and password; for an administrator also the users."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Account", ":material/account_circle:", Section.SHARE, order=4)
