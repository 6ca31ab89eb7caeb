"""The report's section about what its intervals cover, and which measurement would narrow them most.

Enters: a finished run. Leaves: the section; every report of a run since `--uncertainty` has it, and a run whose intervals cover the
simulation alone says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcap.report import words

if TYPE_CHECKING:
    from markupsafe import Markup

    from sim.result import Uncertainty
    from simcap.report.sections import Section
    from simcap.rundir import Run


def section(run: Run) -> Section | None:
    """None for a result that an earlier simcap wrote."""
    from markupsafe import Markup

    from simcap.report.sections import Section

    known = run.result.uncertainty
    if known is None:
        return None
    parts = [Markup("<p>{}</p>").format(covers(known))]
    if known.left_out:
        items = Markup("").join(Markup("<li>{}</li>").format(line) for line in known.left_out)
        parts.append(
            Markup("<p>In no interval, because nobody stated it, is the uncertainty of:</p><ul>{}</ul>").format(items)
        )
    if known.narrowing:
        parts.append(_narrowing(known))
    return Section("uncertainty", "What the intervals cover", Markup("\n").join(parts))


def covers(known: Uncertainty) -> str:
    """One or two sentences."""
    if known.covers == "full":
        source = words.calibration_runs(known)
        if known.between_runs is not None:
            source += (
                f"; the machine differs by ±{100 * known.between_runs:.2g} % (one standard deviation) from run to run"
            )
        elif known.runs == 1:
            source += ", which cannot tell how runs differ"
        return f"The simulation and calibration, as far as the profile states how far it may lie off ({source})."
    if known.asked == "simulation":
        return "The simulation alone, as asked (--uncertainty simulation). Errors of the profile are in no interval."
    return (
        "The simulation alone: the profile states no uncertainty of the figures used. Their errors are in no interval."
    )


def _narrowing(known: Uncertainty) -> Markup:
    from markupsafe import Markup

    rows = Markup("").join(
        Markup(
            '<tr><th scope="row">{}</th><td class="num"><data value="{}">{} %</data></td><td><code>{}</code></td></tr>'
        ).format(one.what, one.share, words.number(100 * one.share), one.measure)
        for one in known.narrowing
    )
    caption = Markup(
        "<caption>What the interval of the SLO’s percentile is made of, at a load of {:g}</caption>"
    ).format(known.narrowing_load)
    head = Markup(
        '<th scope="col">Source</th><th scope="col" class="num">Of its variance</th><th scope="col">What narrows it</th>'
    )
    return Markup('<div class="scroll"><table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>').format(
        caption, head, rows
    )
