"""Cost: the price of tokens with each arm, what that saves, the cheapest arm within the SLO, and the price book."""

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
    price_book.show(*selection.likely_entry(sections.studies()))
    sections.follow(published)
with above:
    results_sections.show_empty_state()
    with said_here():
        parameters = sections.choose()
        choice = selection.of(parameters)
        costs = sections.costs(choice)
        st.caption(literal(cards.price_sentence(costs, choice.utilisation)))
        view = View("cost", parameters)
        sections.show_cards(choice, costs)
        sections.show_figures(parameters, view)
        sections.show_tables(choice, costs, view)
