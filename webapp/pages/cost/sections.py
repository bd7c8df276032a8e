"""The parts of the Cost page, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime

import streamlit as st

from lab.errors import UnknownPriceError, UserError
from warehouse.queries.costs import ArmCost
from warehouse.queries.slo_costs import cheapest
from webapp.pages.cost import cards, figures, selection, tables
from webapp.pages.cost import data as cost_data
from webapp.pages.cost.selection import Choice
from webapp.pages.results import sections
from webapp.shared import drawing, open_tabs, published_data, url_params, url_widgets
from webapp.shared.about import View
from webapp.shared.text import literal


def choose() -> dict[str, Sequence[str]]:
    """Study, kind of cost, price, utilisation, and how many requests must keep the SLO. Says what is no number beside
    its field and ends the page there.
    """
    study, per, kept = st.columns([2.4, 2, 1.4])
    with study:
        label = url_widgets.choose(url_params.JOB, sections.labels(published_data.studies_with_results()))
    with per:
        measure = url_widgets.choose(url_params.PER, list(selection.BY_LABEL))
    with kept:
        share = url_widgets.choose(url_params.KEPT, list(selection.KEPT))
    price_column, used_column, _ = st.columns([1.2, 1.2, 3.4])
    with price_column:
        price = url_widgets.write(
            url_params.PRICE,
            placeholder="by the price book",
            help_text="Of everything an engine runs on, for all arms. Empty: the study's own price, or the price "
            "book's of that hardware and day",
        )
        is_right = _checked(lambda: selection.price_of(price))
    with used_column:
        used = url_widgets.write(
            url_params.UTILISATION,
            placeholder="100, or the entry's own",
            help_text="The share of the hours paid for in which the hardware works; idle hours are paid for too",
        )
        is_right &= _checked(lambda: selection.utilisation_of(used))
    url_widgets.say_missing(url_params.JOB, url_params.PER, url_params.KEPT)
    if not is_right:
        st.stop()
    keys = (url_params.JOB, url_params.PER, url_params.KEPT, url_params.PRICE, url_params.UTILISATION)
    asked = zip(keys, (url_params.job_id_of(label), measure, share, price, used), strict=True)
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
            cards.least_card(found),
            cards.saving_card(found),
            cards.slo_card(slo, cheapest(found, choice.least_share), choice.least_share),
            cards.energy_card(found),
        ]
    )


def show_figures(asked: Mapping[str, Sequence[str]], view: View) -> None:
    mode = drawing.mode()
    drawing.show_figures(figures.drawn(asked, mode), mode, view)


def show_tables(choice: Choice, found: Sequence[ArmCost], view: View) -> None:
    frame, slo = tables.rows(found, choice.least_share), cost_data.slo(choice.job_id)
    currency = "/".join(tables.currencies(found))
    config = tables.table_config(currency)

    def show_costs() -> None:
        shown = tables.table(frame, has_slo=slo is not None)
        drawing.show_table(shown, config, f"What tokens cost ({currency})", view, "costs")
        if frame["kwh_per_million_output_tokens"].isna().all():
            st.caption("Energy: not measured, no power of a GPU was seen in these runs.")

    def show_cheapest() -> None:
        if slo is None:
            st.caption("This study gives no SLO, so nothing can keep one: bound TTFT, TPOT or E2E latency on Submit.")
        else:
            st.caption(f"SLO of this study: {tables.slo_words(slo)}. Of the arms and loads that keep it:")
            best = tables.cheapest(cheapest(found, choice.least_share))
            drawing.show_table(best, config, f"Cheapest arm that keeps the SLO ({currency})", view, "cheapest")

    open_tabs.show(url_params.COST_TAB, {"Costs": show_costs, "Cheapest that keeps the SLO": show_cheapest})


@st.fragment(run_every="2s")
def follow(published: published_data.Publication) -> None:
    """A price that was added counts once the ingester has published it."""
    if published_data.publication() != published:
        st.rerun()


def newest() -> tuple[str, date]:
    """Hardware and day of the newest study: what somebody who adds a price may mean. Else nothing, and today."""
    if published_data.publication() is None or (studies := published_data.studies_with_results()).empty:
        return "", datetime.now(UTC).date()
    study = studies.iloc[0]
    return str(study["hardware"] or "").partition(", ")[0], study["submitted_at"].date()
