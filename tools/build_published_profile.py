"""Write profiles/data/mi300x-published.profile.json and the tables of docs/explanation/published-fit.md.

Enters: profiles/data/mi300x_published.csv, one published number a row, with its address, date and doubt. Leaves: the
profile, in which every number says whether it was published, modeled from published ones or assumed. Same table, same
bytes; tests/contract/test_published_profile.py holds it. Usage: python tools/build_published_profile.py [--out DIR]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from published_entries import FA, MIGRAPHX_MODELS, SDPA_THREE, SINGLE, TASKS, cpu, flash_attention, migraphx, sdpa
from published_fit import CHOSEN, Fit, Row, cells_of, fit_shape, read_table, router_overhead_ms
from published_report import fit_tables, replace_between

from profiles import quantity, schema, store

NAME = "mi300x-published"
ROOT = Path(__file__).resolve().parent.parent
DOC = Path("docs/explanation/published-fit.md")

NOTES = (
    "Nobody measured this profile: it is made from published tables by tools/build_published_profile.py.",
    (
        "Numbers marked `modeled` were solved from end-to-end latencies with the lock-domain mechanism; "
        "docs/explanation/published-fit.md says which parameter was fitted to which cells and how far off each cell is."
    ),
    "MIGraphX figures come from a shared host whose GPU model the source does not state.",
    (
        "Activation memory is modeled from the architecture and session load time is assumed: neither was published. Not in "
        "this profile at all: batch sizes above 1, loading of cached programs, accuracy figures, and lengths below 512 "
        "tokens except the published range for MIGraphX."
    ),
    (
        "The published engine ran these lengths in full; the router's main branch has truncated classifier input to 512 "
        "tokens since 2026-04-28, so lengths above 512 describe the engine and not today's default router."
    ),
)


def sources(rows: list[Row]) -> dict[str, schema.Source]:
    """One source for each `source_key` of the table."""
    found: dict[str, schema.Source] = {}
    for r in rows:
        doubt = None if r["runtime"] == "" else f"runtime: {r['runtime']}; hardware: {r['hardware']}"
        source = {"title": r["source"], "url": r["url"], "date": r["date"], "trust": r["trust"], "doubt": doubt}
        found.setdefault(r["source_key"], schema.Source.model_validate(source))
    return found


def router_overhead(fit: Fit) -> schema.RouterOverhead:
    """Solved from two published cells; no figure for a rise with tokens exists."""
    base = quantity.Figure(
        value=round(fit.router_ms / 1000, 6),
        origin="modeled",
        source=SDPA_THREE,
        doubt="SDPA at 512 tokens: 19 ms for three classifiers end to end less two single inferences of 6 ms one after "
        "another, when two at a time do not slow each other; all of it is charged to a CPU worker",
    )
    per_token = quantity.Figure(
        value=0.0, origin="assumed", doubt="not identified: what rises with tokens is counted as service time"
    )
    return schema.RouterOverhead(base_s=base, per_token_s=per_token)


def fit_of(rows: list[Row]) -> Fit:
    """The fit that the profile uses."""
    router_ms = router_overhead_ms(cells_of(rows, SINGLE, "sdpa_fp16"), cells_of(rows, SDPA_THREE, "sdpa_fp16"))
    return fit_shape(cells_of(rows, FA, "ck_fa_fp16"), router_ms, CHOSEN)


def build(rows: list[Row]) -> schema.Profile:
    """The whole profile."""
    fit = fit_of(rows)
    memory = next(r for r in rows if r["metric"] == "vram_total_bytes")
    entries = [
        *(flash_attention(model, rows, fit) for model in TASKS),
        *(sdpa(model, rows, fit) for model in TASKS),
        *(migraphx(model, rows) for model in MIGRAPHX_MODELS),
        *(cpu(model, rows) for model in TASKS),
    ]
    device = schema.Device(
        catalog="mi300x",
        kind="gpu",
        name=memory["hardware"],
        memory_bytes=quantity.Figure(
            value=float(memory["value"]), origin="published", source=memory["source_key"], doubt=memory["doubt"]
        ),
    )
    return schema.Profile.model_validate(
        {
            "schema": "simcap.profile/1",
            "name": NAME,
            "description": "mmBERT-32K classifiers on MI300X (ROCm provider), MIGraphX at 512 tokens and a CPU baseline, "
            "from published tables; not measured by us",
            "created": max(r["date"] for r in rows if len(r["date"]) == len("2026-01-01")),
            "device": device,
            "host": {"cpu": "not stated (x86-64)"},
            "software": {
                "rocm": "ROCm 7.0 with onnxruntime_rocm 1.22.1 (pinned in the source's image, not stated in its tables)",
                "migraphx": "onnxruntime_migraphx 1.23.2, MIGraphX 2.15, ROCm 7.2",
            },
            "sources": sources(rows),
            "router": router_overhead(fit),
            "notes": NOTES,
            "entries": entries,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT, help="write below this folder and not below the repository")
    out: Path = parser.parse_args().out
    rows = read_table()
    target = out / "profiles" / "data" / f"{NAME}.profile.json"
    store.save(build(rows), target)
    tables = fit_tables(cells_of(rows, FA, "ck_fa_fp16"), fit_of(rows))
    store.write_whole(out / DOC, replace_between((ROOT / DOC).read_text(encoding="utf-8"), tables).encode())
    print(tables)
    print(f"wrote {target} and {out / DOC}")


if __name__ == "__main__":
    main()
