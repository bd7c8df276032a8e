"""Small tables to the digit: verdicts that users were shown do not change because somebody tidied up the arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.comparison.moderation import moderated, repetitions

#: The last cell is wild.
FIVE = [1e-4, 2e-4, 5e-5, 4e-4, 1e-2]
HISTORY = [[100.0, 103.0, 98.0], [50.0, 51.0], [7.0], [1.0, 0.0]]
#: Noise that grows with the load: three cells at each of three.
LOADS = [1, 1, 1, 4, 4, 4, 16, 16, 16]
GROWING = [1e-4 * load**0.8 * own for load, own in zip(LOADS, (1, 1.5, 0.7, 2, 0.4, 1.1, 0.8, 1.2, 0.9), strict=True)]


@pytest.mark.parametrize(
    ("variances", "options", "expected"),
    [
        (
            FIVE,
            {},
            [
                (0.000176148865, 2.50665002),
                (0.000224211598, 2.67552054),
                (0.000132500269, 2.25410351),
                (0.000293603402, 2.79569917),
                (0.00581371094, 3.44445169),
            ],
        ),
        (
            FIVE,
            {"repeated": [1, 2, 5, 1, 3]},
            [
                (0.000181285248, 2.36529507),
                (0.000232291819, 2.53340233),
                (0.000135316916, 2.13305733),
                (0.000305310476, 2.67498267),
                (0.00579843611, 3.40007062),
            ],
        ),
        (
            FIVE,
            {"history": HISTORY[:1] * 20},
            [
                (0.000416008758, 2.60391063),
                (0.000590878498, 3.46877216),
                (0.00025833094, 1.96020748),
                (0.0007543021, 4.3619959),
                (0.00485684961, 2.93832755),
            ],
        ),
        (
            GROWING,
            {"loads": LOADS},
            [
                (0.000185160785, 3.46285393),
                (0.000206728345, 3.69674883),
                (0.000165388587, 3.20741654),
                (0.000413810414, 5.33260962),
                (0.000281264927, 4.3469359),
                (0.000361619474, 5.39996169),
                (0.000570100913, 4.83247485),
                (0.000644063256, 4.65584302),
                (0.000588417012, 4.81199475),
            ],
        ),
    ],
    ids=["alone", "the same noise in several cells", "history", "grows with load"],
)
def test_a_variance_is_moderated_by_those_of_the_other_cells(
    variances: list[float], options: dict[str, Any], expected: list[tuple[float, float]]
) -> None:
    count = len(variances)
    scatters = moderated(variances, [2] * count, [1] * count, **options)
    assert [(scatter.variance, scatter.df) for scatter in scatters if scatter] == [
        pytest.approx(pair, rel=1e-6) for pair in expected
    ]


def test_shared_baselines_controls_and_cells_without_scatter_have_their_part() -> None:
    """The sixth cell repeats itself, the seventh has one repeat, and two cells measured before tell nothing."""
    scatters = moderated(
        [*FIVE, 0.0, 0.0],
        [2, 2, 2, 2, 2, 2, 0],
        [1, 2, 2, 1, 3, 1, 1],
        HISTORY,
        controls=[False, False, False, True, True, False, False],
    )
    assert scatters[5] is None
    assert [(scatter.variance, scatter.df) for scatter in scatters if scatter] == [
        pytest.approx(pair, rel=1e-6)
        for pair in (
            (0.000248196211, 2.63991261),
            (0.000322659275, 3.00739312),
            (0.000176041946, 2.21257779),
            (0.000405735024, 3.27307644),
            (0.00564581476, 3.25622342),
            (0.000345042946, 2.30230211),
        )
    ]
    assert [scatter.source for scatter in scatters if scatter] == [
        *["the scatter of 2 like cells, 2 controls and 2 cells measured before"] * 3,
        *["the scatter of 3 like cells, 1 control and 2 cells measured before"] * 2,
        "the scatter of 3 like cells, 2 controls and 2 cells measured before",
    ]


def test_a_slope_with_the_load_takes_eight_cells_on_three_loads() -> None:
    def first(cells: int, loads: list[int]) -> float:
        scatter = moderated(GROWING[:cells], [2] * cells, [1] * cells, loads=loads[:cells])[0]
        assert scatter is not None
        return scatter.variance

    assert first(8, LOADS) == pytest.approx(0.00018295014, rel=1e-6)
    assert first(8, LOADS) != pytest.approx(first(8, [1] * 8), rel=1e-3)
    assert first(7, LOADS) == first(7, [1] * 7) == pytest.approx(0.000206565719, rel=1e-6)
    assert first(9, [1] * 4 + [4] * 5) == first(9, [1] * 9) == pytest.approx(0.000277349522, rel=1e-6)


def test_fewer_than_three_cells_or_six_degrees_of_freedom_moderate_nothing() -> None:
    assert moderated([1e-4] * 2, [4] * 2, [1] * 2) == [None, None]
    assert moderated([1e-4] * 3, [2, 2, 1], [1] * 3) == [None] * 3
    scatters = moderated([1e-4, 2e-4, 3e-4], [2] * 3, [1] * 3)
    assert scatters[0] is not None
    assert (scatters[0].variance, scatters[0].df) == pytest.approx((0.000156929345, 2.74921996), rel=1e-6)
    assert scatters[0].source == "the scatter of 2 like cells"


def test_the_rounding_of_equal_repeats_is_no_scatter() -> None:
    """The variance of three equal numbers is 0 for most numbers and 1e-32 for others."""
    rounding = float(np.full(3, 0.7).var(ddof=1))
    assert rounding > 0
    assert moderated([*FIVE, rounding], [2] * 6, [1] * 6) == moderated([*FIVE, 0.0], [2] * 6, [1] * 6)
    earlier = [moderated(FIVE, [2] * 5, [1] * 5, [*HISTORY, [measured] * 7]) for measured in (2.0, 5.0, 17.0)]
    assert earlier == [earlier[0]] * 3
    noise = np.array([1.0, 1.0, -2.0])
    assert repetitions([{"start"}] * 2, [1e-17 * noise, 0.01 * noise]) == [1.0, 1.0]
