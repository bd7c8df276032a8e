"""The parts of the Cost page, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime

import streamlit as st

from lab.errors import UnknownPriceError, UserError
from warehouse.slo_costs import cheapest
from warehouse.study_costs import ArmCost
from webapp import (
    choosing,
    cost_cards,
    cost_choice,
    cost_data,
    cost_figures,
    cost_rows,
    data,
    drawing,
    open_tabs,
    params,
    results_page,
)
from webapp.about import View
from webapp.cost_choice import Choice
from webapp.text import literal


def choose() -> dict[str, Sequence[str]]:
    """Study, kind of cost, price, utilisation, and how many requests must keep the SLO. Says what is no number beside
    its field and ends the page there.
    """
    study, per, kept = st.columns([2.4, 2, 1.4])
    with study:
        label = choosing.choose(params.JOB, results_page.labels(data.studies_with_results()))
    with per:
        measure = choosing.choose(params.PER, list(cost_choice.BY_LABEL))
    with kept:
        share = choosing.choose(params.KEPT, list(cost_choice.KEPT))
    price_column, used_column, _ = st.columns([1.2, 1.2, 3.4])
    with price_column:
        price = choosing.write(
            params.PRICE,
            placeholder="by the price book",
            help_text="Of everything an engine runs on, for all arms. Empty: the study's own price, or the price "
            "book's of that hardware and day",
        )
        is_right = _checked(lambda: cost_choice.price_of(price))
    with used_column:
        used = choosing.write(
            params.UTILISATION,
            placeholder="100, or the entry's own",
            help_text="The share of the hours paid for in which the hardware works; idle hours are paid for too",
        )
        is_right &= _checked(lambda: cost_choice.utilisation_of(used))
    choosing.say_missing(params.JOB, params.PER, params.KEPT)
    if not is_right:
        st.stop()
    keys = (params.JOB, params.PER, params.KEPT, params.PRICE, params.UTILISATION)
    asked = zip(keys, (params.job_id_of(label), measure, share, price, used), strict=True)
    return {param.key: (value,) for param, value in asked if value}


def _checked(read: Callable[[], object]) -> bool:
    try:
        read()
    except UserError as error:
        st.caption(f":red[:material/error: {literal(error)}]")
        return False
    return True


def costs(choice: Choice) -> list[ArmCost]:
    """Ends the page where nobody knows the price, with what to do."""
    try:
        return cost_data.costs(choice.job_id, choice.price, choice.utilisation)
    except UnknownPriceError as error:
        st.info(
            f"Nobody knows what an hour of {literal(error.hardware)} cost on {error.day or 'an unknown day'}. Write "
            "its price above, for this view alone, or add it to the price book below, from that day or an earlier one.",
            icon=":material/payments:",
        )
        st.stop()


def show_cards(choice: Choice, found: Sequence[ArmCost]) -> None:
    slo = cost_data.slo(choice.job_id)
    drawing.show_cards(
        [
            cost_cards.least_card(found),
            cost_cards.saving_card(found),
            cost_cards.slo_card(slo, cheapest(found, choice.least_share), choice.least_share),
            cost_cards.energy_card(found),
        ]
    )


def show_figures(asked: Mapping[str, Sequence[str]], view: View) -> None:
    mode = drawing.mode()
    drawing.show_figures(cost_figures.drawn(asked, mode), mode, view)


def show_tables(choice: Choice, found: Sequence[ArmCost], view: View) -> None:
    frame, slo = cost_rows.rows(found, choice.least_share), cost_data.slo(choice.job_id)
    currency = "/".join(cost_rows.currencies(found))
    config = cost_rows.table_config(currency)

    def show_costs() -> None:
        shown = cost_rows.table(frame, has_slo=slo is not None)
        drawing.show_table(shown, config, f"What tokens cost ({currency})", view, "costs")
        if frame["kwh_per_million_output_tokens"].isna().all():
            st.caption("Energy: not measured, no power of a GPU was seen in these runs.")

    def show_cheapest() -> None:
        if slo is None:
            st.caption("This study gives no SLO, so nothing can keep one: bound TTFT, TPOT or E2E latency on Submit.")
        else:
            st.caption(f"SLO of this study: {cost_rows.slo_words(slo)}. Of the arms and loads that keep it:")
            best = cost_rows.cheapest(cheapest(found, choice.least_share))
            drawing.show_table(best, config, f"Cheapest arm that keeps the SLO ({currency})", view, "cheapest")

    open_tabs.show(params.COST_TAB, {"Costs": show_costs, "Cheapest that keeps the SLO": show_cheapest})


@st.fragment(run_every="2s")
def follow(published: data.Publication) -> None:
    """A price that was added counts once the ingester has published it."""
    if data.publication() != published:
        st.rerun()


def newest() -> tuple[str, date]:
    """Hardware and day of the newest study: what somebody who adds a price may mean. Else nothing, and today."""
    if data.publication() is None or (studies := data.studies_with_results()).empty:
        return "", datetime.now(UTC).date()
    study = studies.iloc[0]
    return str(study["hardware"] or "").partition(", ")[0], study["submitted_at"].date()
