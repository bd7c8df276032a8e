"""The Deploy page."""

from webapp.shared.page import Page, Section

PAGE = Page(
    __name__,
    "Deploy",
    ":material/rocket_launch:",
    Section.UNDERSTAND,
    order=5,
    is_of_study=True,
    has_figures=True,
    former=("advice", "tune"),
)
