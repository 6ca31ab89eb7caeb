"""`simcap runtimes list|install|remove|doctor`: one build of ONNX Runtime each, in an environment of its own.

Enters: a runtime's name. Leaves: an environment below the cache, whole or not at all. Errors are raised for `simcap.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcap.commands.doctor import doctor
from simcap.screen import Json, print_json

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Install, list or remove runtimes: builds of ONNX Runtime, which exclude each other.",
)

Cache = Annotated[Path | None, typer.Option(help="Where runtimes stay. [default: ~/.cache/simcap]")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="cpu, openvino, migraphx, rocm or cuda.")]


@app.command("list")
def list_runtimes(cache: Cache = None, as_json: Json = False) -> None:
    """Name the runtimes, what each one holds, and whether it is installed. `simcap doctor` says which ones work."""
    from calibrate.environments import REQUIREMENTS, environments
    from calibrate.model_zoo.cache import cache_directory
    from simcap.screen import print_table

    rows = []
    for place in environments(cache_directory(cache)):
        held = place.requirements
        state = (
            "no" if not place.installed else "yes" if held == REQUIREMENTS[place.name] else f"other: {' '.join(held)}"
        )
        rows.append((place.name, " ".join(REQUIREMENTS[place.name]), state))
    if as_json:
        known = environments(cache_directory(cache))
        print_json(
            [
                {
                    "name": place.name,
                    "pinned": list(REQUIREMENTS[place.name]),
                    "installed": place.installed,
                    "holds": list(place.requirements) if place.installed else [],
                    "folder": str(place.folder),
                }
                for place in known
            ]
        )
        return
    print_table(("runtime", "holds", "installed"), rows)


@app.command()
def install(name: Name, cache: Cache = None, as_json: Json = False) -> None:
    """Make the runtime's environment and install its pinned wheels; nothing is left behind when that fails."""
    from calibrate.environments import install as install_runtime
    from calibrate.model_zoo.cache import cache_directory

    place = install_runtime(name, cache_directory(cache), lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({"name": place.name, "holds": list(place.requirements), "folder": str(place.folder)})
        return
    typer.echo(f"{place.name}: {' '.join(place.requirements)} in {place.folder}")


@app.command()
def remove(name: Name, cache: Cache = None, as_json: Json = False) -> None:
    """Remove the runtime's environment."""
    from calibrate.environments import remove as remove_runtime
    from calibrate.model_zoo.cache import cache_directory

    remove_runtime(name, cache_directory(cache))
    if as_json:
        print_json({"name": name, "removed": True})
        return
    typer.echo(f"{name}: removed")


app.command("doctor")(doctor)
