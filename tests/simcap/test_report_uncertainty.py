"""The report says what its intervals cover, what they leave out, and which measurement would narrow them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sim.result import Narrowing, Uncertainty
from simcap.report.uncertainty import section


@dataclass
class OfResult:
    uncertainty: Uncertainty | None


@dataclass
class Finished:
    result: OfResult


def html_of(known: Uncertainty | None) -> str | None:
    run: Any = Finished(OfResult(known))
    made = section(run)
    return None if made is None else str(made.html)


def test_full_names_runs_sources_and_commands_escaped():
    """All that the result holds stands in the section, and text from files cannot become markup."""
    html = html_of(
        Uncertainty(
            asked="full",
            covers="full",
            runs=3,
            between_runs=0.05,
            left_out=("occupancy of <m> (modeled)",),
            narrowing=(Narrowing(what="the <cell>", share=0.75, measure="simcap calibrate --tokens 512"),),
            narrowing_load=40.0,
        )
    )
    assert html is not None
    assert "3 calibration runs; the machine differs by ±5 %" in html
    assert "occupancy of &lt;m&gt; (modeled)" in html
    assert '<data value="0.75">75 %</data>' in html
    assert "at a load of 40" in html
    assert "<cell>" not in html


def test_the_simulation_alone_is_said_with_its_reason():
    """Asked for, or because the profile states nothing: two different sentences; an old result has no section."""
    asked, nothing = (html_of(Uncertainty(asked=word, covers="simulation")) for word in ("simulation", "full"))
    assert asked is not None
    assert nothing is not None
    assert "as asked" in asked
    assert "states no uncertainty" in nothing
    assert html_of(None) is None
