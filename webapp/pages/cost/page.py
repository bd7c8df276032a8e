"""Cost: the price of tokens with each arm, what that saves, the cheapest arm within the SLO, and the price book."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from access.web import visitor
from lab.errors import UnknownPriceError, UserError
from lab.roles import Change
from warehouse.queries.costs import ArmCost, cheapest
from webapp.pages.cost import data as cost_data
from webapp.pages.cost import figures, price_book, tables
from webapp.pages.cost.selection import (
    MEASURES,
    SLO_SHARES,
    Selection,
    likely_entry,
    parse,
    price_of,
    utilisation_of,
)
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import literal
from webapp.shared.url_params import View
from webapp.shared.verdicts import capacities

_MIN_FIELD_WIDTH = 195


def show_page() -> None:
    st.title("Cost", anchor=False)
    published = published_data.publication()
    above, below = st.container(), st.container()
    with below, show_user_errors():
        studies = pd.DataFrame() if published is None else published_data.studies_with_results()
        price_book.show(*likely_entry(studies))
        published_data.rerun_when_published(published)  # a new price takes effect only then
    with above:
        study_picker.show_empty_state()
        with show_user_errors():
            parameters = choose()
            costs = None if parameters is None else arm_costs(parse(parameters))
            if parameters is None or costs is None:
                return  # not by st.stop, after which the URL would not name the study
            selection, view, mode = parse(parameters), View("cost", parameters), colour_mode()
            if costs:
                _show_price(costs, selection)
                slo, cheapest_arms = cost_data.slo(selection.job_id), cheapest(costs, selection.least_share)
                show_cards(tables.beside_cards(costs))
                show_cards(
                    [
                        tables.lowest_cost_card(costs),
                        tables.slo_card(slo, cheapest_arms, selection.least_share, costs),
                        tables.energy_card(costs),
                    ]
                )
                show_figures(figures.draw(selection, mode), mode, view)
                show_tables(selection, costs, view)
            capacities.show(selection.job_id, view, selection.price, selection.utilisation)


def _show_price(costs: Sequence[ArmCost], selection: Selection) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(literal(tables.price_sentence(costs, selection.utilisation)), width="content")
        if selection.price is not None and visitor.allowed_any(Change.PRICES):
            st.button(
                "Keep this price",
                icon=":material/book:",
                type="tertiary",
                help="Opens the form of the price book below with this price",
                on_click=price_book.begin,
                args=(selection.price,),
            )


def choose() -> dict[str, Sequence[str]] | None:
    """Choose study, kind of cost, share of requests within the SLO, price and utilisation, as parameters of the link.

    None if a value is not a number, which is reported below its field.
    """
    job_id = study_picker.chosen_study()
    with st.grid(4, min_column_width=_MIN_FIELD_WIDTH, gap="small"):
        per, slo, price_column, utilisation_column = (st.container() for _ in range(4))
    with per:
        measure = url_widgets.choose(url_params.PER, list(MEASURES))
    with slo:
        share = url_widgets.choose(url_params.SLO_SHARE, list(SLO_SHARES))
    with price_column:
        price = url_widgets.write(
            url_params.PRICE,
            placeholder="the study's, or the book's",
            help_text="The price of all the hardware an engine runs on, for every arm. Empty: the study's own price, "
            "or the price book's for that hardware and day",
        )
        is_valid = _is_valid(lambda: price_of(price))
    with utilisation_column:
        utilisation = url_widgets.write(
            url_params.UTILISATION,
            placeholder="100, or the entry's own",
            help_text="The share of paid hours in which the hardware works; idle hours are paid for too",
        )
        is_valid &= _is_valid(lambda: utilisation_of(utilisation))
    url_widgets.report_missing(url_params.PER, url_params.SLO_SHARE)
    if not is_valid:
        return None
    keys = (url_params.JOB, url_params.PER, url_params.SLO_SHARE, url_params.PRICE, url_params.UTILISATION)
    values = zip(keys, (job_id, measure, share, price, utilisation), strict=True)
    return {param.key: (value,) for param, value in values if value}


def _is_valid(read: Callable[[], object]) -> bool:
    try:
        read()
    except UserError as error:
        st.caption(f":red[:material/error: {literal(error)}]")
        return False
    return True


def arm_costs(selection: Selection) -> list[ArmCost] | None:
    """Return the costs; None if a price is missing, and how to add it."""
    try:
        return cost_data.costs(selection.job_id, selection.price, selection.utilisation)
    except UnknownPriceError as error:
        may_add = visitor.allowed_any(Change.PRICES)
        rest = "or add one to the price book below" if may_add else "or ask somebody who may add one to the price book"
        st.info(
            f"No price is recorded for {literal(error.hardware)} on {error.day or 'an unknown day'}. Enter a price "
            f"above to use it for this view only, {rest}, from that day or earlier.",
            icon=":material/payments:",
        )
        return None


def show_tables(selection: Selection, costs: Sequence[ArmCost], view: View) -> None:
    frame, slo = tables.rows(costs, selection.least_share), cost_data.slo(selection.job_id)
    currency = "/".join(tables.currencies(costs))
    config = tables.table_config(currency)

    def show_costs() -> None:
        shown = tables.table(frame, has_slo=slo is not None)
        show_table(shown, config | dict.fromkeys(tables.hidden(shown)), f"Cost of tokens ({currency})", view, "costs")
        if frame["kwh_per_million_output_tokens"].isna().all():
            st.caption("Energy was not measured: these runs recorded no GPU power.")

    def show_cheapest() -> None:
        if slo is None:
            st.caption("This study sets no SLO. Bounds on TTFT, TPOT or E2E latency can be set on the Submit page.")
        else:
            st.caption(f"SLO of this study: {tables.slo_bounds(slo)}. The cheapest arm and load that meet it:")
            best = tables.cheapest(cheapest(costs, selection.least_share))
            show_table(best, config, f"Cheapest arm within the SLO ({currency})", view, "cheapest")

    url_widgets.show_tabs(url_params.COST_TAB, {"Costs": show_costs, "Cheapest within the SLO": show_cheapest})


if __name__ == "__main__":
    show_page()
