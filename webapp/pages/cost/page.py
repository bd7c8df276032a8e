"""Cost: the price of tokens with each arm, what that saves, the cheapest arm within the SLO, and the price book."""

from __future__ import annotations

import streamlit as st

from webapp.pages.cost import cards, price_book, sections, selection
from webapp.shared import published_data, study_picker
from webapp.shared.errors import show_user_errors
from webapp.shared.text import literal
from webapp.shared.url_params import View

st.title("Cost")
published = published_data.publication()
above, below = st.container(), st.container()
with below, show_user_errors():
    price_book.show(*selection.likely_entry(sections.studies()))
    sections.follow(published)
with above:
    study_picker.show_empty_state()
    with show_user_errors():
        parameters = sections.choose()
        choice = selection.of(parameters)
        costs = sections.costs(choice)
        st.caption(literal(cards.price_sentence(costs, choice.utilisation)))
        view = View("cost", parameters)
        sections.show_summary(choice, costs)
        sections.show_charts(parameters, view)
        sections.show_tables(choice, costs, view)
