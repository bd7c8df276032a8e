"""Cost: what tokens cost with each arm, what that saves, which arm keeps the SLO most cheaply, and the price book."""

from __future__ import annotations

import streamlit as st

from webapp.pages.cost import cards, price_book, sections, selection
from webapp.pages.results import sections as results_sections
from webapp.shared import published_data
from webapp.shared.about import View
from webapp.shared.errors import said_here
from webapp.shared.text import literal

st.title("Cost")
published = published_data.publication()
above, below = st.container(), st.container()
with below, said_here():
    price_book.show(*sections.newest())
    sections.follow(published)
with above:
    results_sections.show_empty_state()
    with said_here():
        asked = sections.choose()
        choice = selection.of(asked)
        found = sections.costs(choice)
        st.caption(literal(cards.price_words(found, choice.utilisation)))
        view = View("cost", asked)
        sections.show_cards(choice, found)
        sections.show_figures(asked, view)
        sections.show_tables(choice, found, view)
