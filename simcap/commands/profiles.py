"""`simcap profiles list|show|schema|merge|derive|age`: what is known about models on a machine, and how well.

Enters: a profile by name or path. Leaves: tables of at most 80 columns on stdout, or JSON with --json; `merge` and `derive` write a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError
from simcap.screen import Json, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiles.document import Strict
    from profiles.entry import Cell, Entry
    from profiles.quantity import Figure
    from profiles.schema import Profile

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List, show or describe profiles."
)


@app.command("list")
def list_profiles(as_json: Json = False) -> None:
    """Name the profiles that ship with simcap."""
    from profiles import store
    from simcap import screen

    known = [store.load(name) for name in store.shipped_names()]
    rows = [_summary(profile) for profile in known]
    if as_json:
        screen.print_json(rows)
        return
    for row in rows:
        screen.print_pairs({key: str(value) for key, value in row.items()})


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped profile, or a path.")],
    as_json: Json = False,
    doubts: Annotated[bool, typer.Option("--doubts", help="Also print every doubt that the file states.")] = False,
) -> None:
    """Show a profile: its models, their service times, its sources and where its numbers come from."""
    from profiles import store
    from simcap import screen

    profile = store.load(name)
    if as_json:
        typer.echo(store.dumps(profile), nl=False)
        return
    screen.print_pairs({key: str(value) for key, value in _summary(profile).items()})
    for kind in dict.fromkeys(_kind(entry) for entry in profile.entries):
        screen.print_table(
            (kind, "tokens", "median ms", "occupancy", "origin"),
            [_entry_row(entry) for entry in profile.entries if _kind(entry) == kind],
            right=("tokens", "median ms", "occupancy"),
        )
    if profile.router:
        base, per_token = profile.router.base_s, profile.router.per_token_s
        typer.echo(f"router CPU a request: {_figure(base)} + tokens × {_figure(per_token)}")
    _print_sources(profile)
    for note in profile.notes:
        screen.print_wrapped(f"note: {note}")
    stated = sorted(set(_doubts(profile)))
    if doubts:
        for doubt in stated:
            screen.print_wrapped(f"doubt: {doubt}")
    elif stated:
        typer.echo(f"{len(stated)} doubts are stated in the file: simcap profiles show {name} --doubts")


@app.command()
def merge(
    names: Annotated[list[str], typer.Argument(metavar="PROFILE...", help="Profiles of one machine, two or more.")],
    out: Annotated[Path, typer.Option(help="The profile to write.")],
    as_json: Json = False,
) -> None:
    """Merge repeated runs: laws pooled by sample counts, the spread between runs kept apart from that within one."""
    from calibrate.checks import profile_name
    from calibrate.merge import merge as merged_of
    from profiles import store
    from simcap import screen

    merged = merged_of([store.load(name) for name in names], profile_name(out))
    store.save(merged, out)
    if as_json:
        print_json({"profile": str(out), "merged": names, "spread": _spread_rows(merged)})
        return
    columns = ("cell", "tokens", "runs", "median ms", "between runs", "within runs")
    for entry in merged.entries:
        if rows := _spreads(entry):
            typer.echo(entry.key)
            screen.print_table(columns, rows, right=columns[1:])
    typer.echo("between runs: from the smallest to the largest median of a run, over the median")
    typer.echo("within runs: from the 10 % to the 90 % quantile of the average run, over the median")
    typer.echo(f"profile: {out}")


@app.command()
def derive(
    name: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a shipped profile, or a path.")],
    to: Annotated[str, typer.Option("--to", metavar="DEVICE", help="GPU of the hardware catalog, as mi355x.")],
    out: Annotated[Path, typer.Option(help="The profile to write.")],
    as_json: Json = False,
) -> None:
    """Model a profile for a GPU that nobody measured, by roofline ratios, with wide bounds."""
    from calibrate.checks import profile_name
    from profiles import store
    from profiles.derive import derive as derived_of
    from simcap import screen

    derived = derived_of(store.load(name), to, profile_name(out))
    store.save(derived.profile, out)
    if as_json:
        print_json({"profile": str(out), "left_out": list(derived.left_out), "notes": list(derived.profile.notes)})
        return
    columns = ("tokens", "median ms", "95 % from", "to")
    for entry in derived.profile.entries:
        typer.echo(entry.key)
        surface = entry.service or entry.paced_service
        rows = []
        for cell in surface.cells if surface else ():
            times = (float(cell.law().ppf(0.5)), cell.median_lo or 0.0, cell.median_hi or 0.0)
            shape = str(cell.tokens) if cell.batch == 1 else f"{cell.tokens}×{cell.batch}"
            rows.append((shape, *(f"{1000 * t:.3g}" for t in times)))
        screen.print_table(columns, rows, right=columns)
    for line in derived.left_out:
        screen.print_wrapped(f"not derived: {line}")
    screen.print_wrapped(f"note: {derived.profile.notes[0]}")
    typer.echo(f"profile: {out}")


@app.command()
def age(
    name: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a shipped profile, or a path.")],
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="The file in use of a model. Repeatable.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="End with exit code 4 when it is stale.")] = False,
    as_json: Json = False,
) -> None:
    """Say whether what a profile was measured on is still what is here."""
    from dataclasses import asdict

    from calibrate.age import age_of
    from profiles import store
    from simcap import screen

    profile = store.load(name)
    found = age_of(profile, dict(_named_file(text) for text in model or ()))
    if as_json:
        rows = [asdict(row) for row in found.rows]
        screen.print_json({"profile": profile.name, "age": found.word, "rows": rows})
    else:
        words = {True: "differs", False: "same", None: "not judged"}
        rows_shown = [(row.what, row.profile, row.here, words[row.differs]) for row in found.rows]
        if rows_shown:
            screen.print_table(("what", "in the profile", "here", ""), rows_shown)
        screen.print_wrapped(found.sentence(profile.name))
    if strict and found.word == "stale":
        raise typer.Exit(4)


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError(f"--model {text}: expected NAME=FILE, as in --model mmbert32k-intent=intent.onnx")
    return name, Path(path)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the profile file."""
    from profiles.json_schema import dumps
    from profiles.schema import Profile

    typer.echo(dumps(Profile), nl=False)


def _summary(profile: Profile) -> dict[str, object]:
    from profiles.schema import origins

    partition = f", partition {profile.device.partition}" if profile.device.partition else ""
    return {
        "name": profile.name,
        "what": profile.description,
        "device": f"{profile.device.name} ({profile.device.catalog}{partition})",
        "created": profile.created,
        "models": ", ".join(sorted({entry.model for entry in profile.entries})) or "(none)",
        "numbers": ", ".join(f"{count} {origin}" for origin, count in sorted(origins(profile).items())),
    }


def _kind(entry: Entry) -> str:
    return f"{entry.artifact} on {entry.provider.name}"


def _entry_row(entry: Entry) -> tuple[str, ...]:
    surface = entry.service or entry.paced_service
    occupancy = _range([f"{point.value:.2g}" for point in entry.occupancy])
    if surface is None:
        return (entry.model, "-", "-", occupancy, "no service times")
    cells = sorted((cell for cell in surface.cells if cell.batch == surface.cells[0].batch), key=lambda c: c.tokens)
    medians = [float(cell.law().ppf(0.5)) * 1000 for cell in cells]
    tokens = _range([str(cell.tokens) for cell in cells])
    median_ms = _range([f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}" for ms in medians])
    return (entry.model, tokens, median_ms, occupancy, _origin(cells))


def _spread_rows(merged: Profile) -> list[dict[str, object]]:
    """One row a cell of the service surfaces: medians of the runs, and 10 and 90 % quantiles of the merged law, in seconds."""
    return [
        {
            "entry": entry.key,
            "cadence": surface.cadence,
            "tokens": cell.tokens,
            "batch": cell.batch,
            "run_medians_s": list(cell.run_medians or ()),
            **{name: float(cell.law().ppf(q)) for name, q in (("p10_s", 0.1), ("p50_s", 0.5), ("p90_s", 0.9))},
        }
        for entry in merged.entries
        for surface in (entry.service, entry.paced_service)
        if surface is not None
        for cell in surface.cells
    ]


def _spreads(entry: Entry) -> list[tuple[str, ...]]:
    """A row for each cell of the service surfaces: how far runs lie apart, and how far one run spreads."""
    rows: list[tuple[str, ...]] = []
    for surface in (entry.service, entry.paced_service):
        for cell in surface.cells if surface else ():
            low, median, high = (float(cell.law().ppf(q)) for q in (0.1, 0.5, 0.9))
            runs = cell.run_medians or (median,)
            between = f"{(max(runs) - min(runs)) / median:.1%}" if len(runs) > 1 else "one run"
            shape = str(cell.tokens) if cell.batch == 1 else f"{cell.tokens}×{cell.batch}"
            within = f"{(high - low) / median:.1%}"
            rows.append(
                (surface.cadence if surface else "", shape, str(len(runs)), f"{median * 1000:.3g}", between, within)
            )
    return rows


def _range(values: list[str]) -> str:
    if not values:
        return "-"
    return values[0] if values[0] == values[-1] else f"{values[0]}–{values[-1]}"


def _origin(cells: list[Cell]) -> str:
    return ", ".join(sorted({cell.origin for cell in cells}))


def _figure(figure: Figure) -> str:
    return f"{figure.value * 1000:g} ms ({figure.origin})"


def _print_sources(profile: Profile) -> None:
    from simcap import screen

    for source in profile.sources.values():
        screen.print_wrapped(f"source [{source.trust or '-'}] {source.date or 'undated'}: {source.title}")
        if source.url:
            typer.echo(f"       {source.url}")


def _doubts(model: Strict) -> Iterator[str]:
    """Every `doubt` anywhere in the file."""
    from profiles.document import Strict

    for name in type(model).model_fields:
        value = getattr(model, name)
        if name == "doubt" and value is not None:
            yield value
        inner = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
        for item in inner:
            if isinstance(item, Strict):
                yield from _doubts(item)
