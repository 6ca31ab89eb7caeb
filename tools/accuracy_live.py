"""Write the dated page on accuracy from validation records of live runs.

Usage: python tools/accuracy_live.py RECORD.json … --out PAGE.md. Every figure on the page is computed from the rows of the
records that stand beside it, so whoever doubts one can compute it again; tests/contract/test_accuracy_page.py does.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from profiles.document import load_json
from profiles.store import write_whole
from simcap.validate.live.summary import LAW_BARS, PREDICTION_BARS
from simcap.validate.record import Estimate, Row, Validation

LATENCIES = ("p50", "p95", "p99")
ALL = (*LATENCIES, "throughput", "utilisation")
POINT = re.compile(r"(.*), run (\d+)$")
WORST = 10
INTRODUCTION = """Written by `tools/accuracy_live.py` from the records beside this page, not by hand. What the words mean, and when not to
trust the figures: [Live validation explained](live-validation.md)."""
BY_POINT = """By point, median over all its runs, counted or not, of the absolute error in %: p50 / p95 / p99. `±`: half the width of the
measured 95 % interval within a run, in % of the figure, median over the runs. `counts`: runs whose prediction counts."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the dated page on accuracy.")
    parser.add_argument("records", type=Path, nargs="+", help="validation records of `simcap validate live`")
    parser.add_argument("--out", type=Path, required=True, help="the page to write")
    given = parser.parse_args()
    records = [load_json(path, Validation) for path in given.records]
    write_whole(given.out, page(records, [path.name for path in given.records]).encode())
    print(f"wrote {given.out}")


def page(records: Sequence[Validation], files: Sequence[str]) -> str:
    """The whole page in Markdown."""
    first = records[0]
    m = first.machine
    versions = ", ".join(f"{k} {v}" for k, v in sorted(m.software.items()) if k in {"onnxruntime", "numpy", "python"})
    parts = [
        f"# How well simcap predicts a live load: {max(r.date for r in records):%Y-%m-%d}",
        INTRODUCTION,
        f"Machine: {m.cpu}, {m.cores} cores, {m.memory_bytes / 2**30:.0f} GiB, {m.os}, kernel {m.kernel}; {versions}.",
        *(section(record, name) for record, name in zip(records, files, strict=True)),
    ]
    return "\n\n".join(parts) + "\n"


def section(record: Validation, file: str) -> str:
    """One structure."""
    rows = record.rows
    pool = any("end - start" in row.remark for row in rows)
    parts = [
        f"## {record.scenario}",
        f"Profile `{record.profile.name if record.profile else '?'}`, [record]({file}). {record.summary}.",
        "Bars, median of the absolute error over points and runs (prediction: over those that count):",
        bars(rows, "pool" if pool else "shared"),
        BY_POINT,
        points(rows),
        f"The {WORST} worst predictions of all, counted or not:",
        worst(rows),
        *(
            ["What the command said beside it:", "\n".join(f"- {note}" for note in record.notes)]
            if record.notes
            else []
        ),
    ]
    return "\n\n".join(parts)


def bars(rows: Sequence[Row], structure: str) -> str:
    lines = ["| basis | loop | figure | median | bar | holds | worst | of |", "|---|---|---|---:|---:|---|---:|---:|"]
    for basis in ("law", "prediction"):
        for loop in ("closed", "open"):
            limits = LAW_BARS.get((structure, loop), {}) if basis == "law" else PREDICTION_BARS[loop]  # type: ignore[call-overload,index]  # the literals
            for figure in ALL if basis == "law" else LATENCIES:
                errors = [
                    abs(row.error or 0.0)
                    for row in mine(rows, basis, figure)
                    if row.where.startswith(loop) and (basis == "law" or row.counted)
                ]
                if not errors:
                    continue
                bar = limits.get(figure)
                holds = "–" if bar is None else "yes" if median(errors) <= bar else "**no**"
                lines.append(
                    f"| {basis} | {loop} | {figure} | {median(errors):.1%} | {'–' if bar is None else f'{bar:.0%}'} | {holds} | {max(errors):.1%} | {len(errors)} |"
                )
    return "\n".join(lines)


def points(rows: Sequence[Row]) -> str:
    lines = [
        "| point | measured p50 / p95 / p99 ms | ± | requests/s | ± | law | prediction | counts | speed |",
        "|---|---|---|---:|---:|---|---|---:|---|",
    ]
    for point in dict.fromkeys(split(row)[0] for row in rows):
        own = [row for row in rows if split(row)[0] == point]
        measured = " / ".join(f"{1000 * median(value(r) for r in mine(own, 'prediction', f)):.0f}" for f in LATENCIES)
        rate = median(value(r) for r in mine(own, "prediction", "throughput"))
        counted = mine(own, "prediction", "p50")
        speeds = [float(found.group(1)) for r in counted if (found := re.search(r"speed factor ([\d.]+)", r.remark))]
        spread = f"{min(speeds):.2f}–{max(speeds):.2f}" if speeds else "–"
        lines.append(
            f"| {point} | {measured} | {' / '.join(half_width(own, f) for f in LATENCIES)} | {rate:.1f} | "
            f"{half_width(own, 'throughput')} | {three(own, 'law')} | {three(own, 'prediction')} | "
            f"{sum(r.counted for r in counted)} of {len(counted)} | {spread} |"
        )
    return "\n".join(lines)


def worst(rows: Sequence[Row]) -> str:
    lines = [
        "| point | figure | measured ms, 95 % | predicted ms, 95 % | error | counted | remark |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    ranked = sorted((r for f in LATENCIES for r in mine(rows, "prediction", f)), key=lambda r: -abs(r.error or 0.0))
    lines += [
        f"| {row.where} | {row.figure} | {with_interval(row.measured)} | {with_interval(row.predicted)} | {row.error or 0.0:+.1%} | "
        f"{'yes' if row.counted else 'no'} | {row.remark} |"
        for row in ranked[:WORST]
    ]
    return "\n".join(lines)


def mine(rows: Iterable[Row], basis: str, figure: str) -> list[Row]:
    return [row for row in rows if row.basis == basis and row.figure == figure]


def value(row: Row) -> float:
    return row.measured.value if row.measured and row.measured.value is not None else float("nan")


def half_width(rows: Sequence[Row], figure: str) -> str:
    """In per cent of the measured figure, median over its runs."""
    found = [
        50 * (row.measured.hi - row.measured.lo) / row.measured.value
        for row in mine(rows, "prediction", figure)
        if row.measured and row.measured.value and row.measured.lo is not None and row.measured.hi is not None
    ]
    return f"{median(found):.0f}" if found else "–"


def with_interval(estimate: Estimate | None) -> str:
    """Milliseconds."""
    if estimate is None or estimate.value is None:
        return "–"
    if estimate.lo is None or estimate.hi is None:
        return f"{1000 * estimate.value:.1f}"
    return f"{1000 * estimate.value:.1f} ({1000 * estimate.lo:.1f} to {1000 * estimate.hi:.1f})"


def split(row: Row) -> tuple[str, int]:
    found = POINT.match(row.where)
    if found is None:
        raise ValueError(f"{row.where!r} is not a point of a live run")
    return found.group(1), int(found.group(2))


def three(rows: Sequence[Row], basis: str) -> str:
    table = [[abs(r.error or 0.0) for r in mine(rows, basis, f)] for f in LATENCIES]
    return " / ".join(f"{100 * median(errors):.1f}" if errors else "–" for errors in table)


if __name__ == "__main__":
    main()
