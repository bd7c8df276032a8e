"""The page of who looks at it: their links, tokens and password; and for an administrator the users."""

from webapp.shared.page import Page, Section

PAGE = Page(__name__, "Account", ":material/account_circle:", Section.SHARE, place=4)
