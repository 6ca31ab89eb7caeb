"""`report.html`: one self-contained page that answers how much, what breaks first, and how sure we are.

Enters: a finished `Run` and the versions of what made it. Leaves: HTML text that opens offline; its content policy forbids
every request. The same run and versions give the same bytes. Text from files is escaped by the template engine, and
JSON inside the page has no character that could end its script element. Figures in `<data value>` are exact.
"""

from __future__ import annotations

import itertools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from profiles.errors import SimcapError
from sim.result import InputOrigin, Point, Result
from simcap.report import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simcap.report.marks import Figure
    from simcap.rundir import Run

MAX_BYTES = 3_000_000
NANOSECOND = 1e-9  # what is shorter is rounding left over from sums, and is shown as 0


def render(run: Run, versions: Mapping[str, str]) -> str:
    """The page; SimcapError should it grow beyond 3 MB."""
    import jinja2

    from simcap.report import events, figures, frames, knee, sections

    result = run.result
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "ms": lambda seconds: words.number(
            None if seconds is None else seconds * 1000 if abs(seconds) >= NANOSECOND else 0.0
        ),
        "number": words.number,
        "percent": words.percent,
        "resource": words.resource,
        "size": words.size,
    }
    drawn = figures.figures(result)
    doubts = numbered_doubts(result.inputs)
    html = environment.from_string(part("page.html.j2")).render(
        run=run,
        result=result,
        words=words,
        figures=drawn,
        detail_points=detail_points(result),
        has_endless=any(p.latency_s[name].mean is None for p in result.points for name in frames.PERCENTILES),
        has_events=events.has_events(result),
        steps_down=events.steps_down(result),
        roomy=events.roomy_point(result),
        knee=knee.knee_of(result),
        knee_factor=f"{knee.FACTOR:g}",
        why_no_knee=knee.why_none(result),
        sections=sections.sections(run),
        doubts=doubts,
        input_groups=grouped_inputs(result.inputs),
        safe_url=safe_url,
        versions=versions,
        **shared(drawn),
    )
    if len(html.encode()) > MAX_BYTES:
        raise SimcapError(
            f"report.html would have {len(html.encode())} bytes, more than {MAX_BYTES}; use fewer load points"
        )
    return html


def shared(drawn: list[Figure]) -> dict[str, str]:
    """What every page of ours holds beside its text: style, script, drawing library, data of its figures."""
    from simcap.report import bundle

    data = _script_json(_data(drawn))
    return {"style": part("style.css"), "script": part("page.js"), "vega": bundle.script(), "data": data}


def part(name: str) -> str:
    """A template, style or script that lies beside this module."""
    return resources.files("simcap.report").joinpath(name).read_text(encoding="utf-8")


def detail_points(result: Result) -> list[Point]:
    """The loads whose signals and classes are told apart: the last that passed, and the first that did not."""
    passed = next((p for p in result.points if p.load == result.capacity.lo), None)
    broken = next((p for p in result.points if p.verdict != "pass"), None)
    return [point for point in (passed, broken) if point is not None]


def numbered_doubts(inputs: tuple[InputOrigin, ...]) -> dict[str, int]:
    """Each distinct doubt and its number, in order of first appearance; many inputs share one."""
    texts = dict.fromkeys(entry.doubt for entry in inputs if entry.doubt)
    return {text: number for number, text in enumerate(texts, start=1)}


def grouped_inputs(inputs: tuple[InputOrigin, ...]) -> list[list[InputOrigin]]:
    """Neighbours that share origin, source and doubt, so that these stand once for all of them."""
    same = itertools.groupby(inputs, key=lambda entry: (entry.origin, entry.source, entry.url, entry.doubt))
    return [list(group) for _, group in same]


def safe_url(url: str | None) -> str | None:
    """The address if a reader may follow it (http or https); None for everything else, scripts above all."""
    return url if url and url.lower().startswith(("https://", "http://")) else None


def _data(drawn: list[Figure]) -> dict[str, Any]:
    from simcap.report import theme

    return {
        "themes": {"light": theme.config("light"), "dark": theme.config("dark")},
        "figures": [{"key": f.key, "title": f.title, "spec": f.spec, "rows": f.rows} for f in drawn],
    }


def _script_json(data: Any) -> str:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
