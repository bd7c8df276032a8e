"""Compare: one study's arms against a baseline: ratios, break-even, acceptance, latencies and outputs."""

from __future__ import annotations

import streamlit as st

from webapp.pages.compare import figures, outputs, sections, selection
from webapp.shared import published_data, study_picker
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View
from webapp.shared.verdicts import capacities


def show_page() -> None:
    st.title("Compare", anchor=False)
    study_picker.show_empty_state()

    with show_user_errors():
        parameters = sections.choose()
        choice = selection.parse(parameters)
        if not choice.pairs:
            runs = published_data.results(choice.job_id)
            study_picker.show_nothing_to_compare(
                runs, "needs valid runs of the baseline and of another arm at the same load"
            )
            st.stop()
        sections.show_caveats(choice)
        sections.show_worse(choice)
        sections.show_gaps(choice)
        sections.show_summary(choice)
        sections.show_report_button(choice)
        carried, of_all, of_cell = st.container(), st.container(), st.container()
        with of_cell:
            parameters |= sections.choose_cell(choice)
        choice, view = selection.parse(parameters), View("compare", parameters)
        with carried:
            capacities.show(choice.job_id, view, strict=choice.comparison.strict)
        with of_all:
            sections.show_charts(figures.OF_ALL, parameters, view)
        with of_cell:
            sections.show_charts(figures.OF_CELL, parameters, view)
        sections.show_tables(choice, view)
        outputs.show(choice)
    study_picker.follow(study_picker.job_state(choice.job_id))


if __name__ == "__main__":
    show_page()
