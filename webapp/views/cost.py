"""Cost: what tokens cost with each arm, what that saves, which arm keeps the SLO most cheaply, and the price book."""

from __future__ import annotations

import streamlit as st

from webapp import cost_cards, cost_choice, cost_page, data, price_book_panel, results_page
from webapp.about import View
from webapp.said import said_here
from webapp.text import literal

st.title("Cost")
published = data.publication()
above, below = st.container(), st.container()
with below, said_here():
    price_book_panel.show(*cost_page.newest())
    cost_page.follow(published)
with above:
    results_page.show_empty_state()
    with said_here():
        asked = cost_page.choose()
        choice = cost_choice.of(asked)
        found = cost_page.costs(choice)
        st.caption(literal(cost_cards.price_words(found, choice.utilisation)))
        view = View("cost", asked)
        cost_page.show_cards(choice, found)
        cost_page.show_figures(asked, view)
        cost_page.show_tables(choice, found, view)
