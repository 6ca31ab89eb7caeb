"""The tables of docs/explanation/published-fit.md: parameters, the shapes compared, the error of every published cell."""

from __future__ import annotations

from collections.abc import Mapping

from published_fit import CHOSEN, LENGTHS, SHAPES, Cell, Fit, cell_errors, fit_shape, left_out_error, mean_absolute

BEGIN, END = "<!-- tables: begin (written by tools/build_published_profile.py) -->", "<!-- tables: end -->"


def fit_tables(cells: Mapping[Cell, float], fit: Fit) -> str:
    """Markdown: three tables."""
    lines = [f"Router overhead r = {fit.router_ms:g} ms.", "", "| tokens | own service time s, ms | occupancy f |"]
    lines.append("|---:|---:|---:|")
    for tokens, service, share in zip(LENGTHS, fit.service_ms, fit.occupancy, strict=True):
        lines.append(f"| {tokens} | {service:.2f} | {share:.3f} |")
    lines += ["", *_shapes(cells, fit.router_ms), "", *_cells(cells, fit)]
    return "\n".join(lines)


def _shapes(cells: Mapping[Cell, float], router_ms: float) -> list[str]:
    lines = [
        "| occupancy is | at 512 and 32768 | fitted medians, C = 10 | left-out medians, C = 10 | p95 cells, not fitted, C = 10 |",
        "|---|---|---:|---:|---:|",
    ]
    for shape in SHAPES:
        fit = fit_shape(cells, router_ms, shape)
        at_ten = [e for e in cell_errors(cells, fit) if e.concurrency == 10]
        fitted, check = (mean_absolute(e for e in at_ten if e.role == role) for role in ("fitted", "check"))
        name = f"**{shape}**" if shape == CHOSEN else shape
        ends = " and ".join(f"{v:.2f}" for v in fit.at_ends)
        left_out = left_out_error(cells, router_ms, shape)
        lines.append(f"| {name} | {ends} | {fitted:.1%} | {left_out:.1%} | {check:.1%} |")
    return lines


def _cells(cells: Mapping[Cell, float], fit: Fit) -> list[str]:
    lines = [
        "| tokens | C | figure | published, ms | formula, ms | error | role |",
        "|---:|---:|---|---:|---:|---:|---|",
    ]
    errors = cell_errors(cells, fit)
    for e in errors:
        figure = "median" if e.metric == "latency_p50_ms" else "p95"
        role = {"fitted": "solved" if e.concurrency == 1 else "fitted"}.get(e.role, e.role)
        lines.append(
            f"| {e.tokens} | {e.concurrency} | {figure} | {e.published_ms:g} | {e.model_ms:.1f} | {e.error:+.1%} | {role} |"
        )
    ten = mean_absolute(e for e in errors if e.concurrency == 10)
    lines += [
        "",
        f"Mean absolute error without the outlier: {ten:.1%} at C = 10, {mean_absolute(errors):.1%} over all cells.",
    ]
    return lines


def replace_between(page: str, tables: str) -> str:
    """The page with what stands between the two marks replaced."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{tables}\n\n{END}{tail}"
