"""`simcap models list|build|inspect|verify`: model files, those of the zoo and the user's own.

Enters: names of the zoo (`mmbert32k-embedding-l6-d256`) or paths of ONNX files. Leaves: files, and what they are on stdout.
Errors are raised for `simcap.cli` to print.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simcap.screen import Json, print_json

if TYPE_CHECKING:
    from calibrate.model_zoo.facts import Tensor

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List, build, inspect or verify models."
)

Name = Annotated[str, typer.Argument(metavar="MODEL", help="A model of the zoo, or the path of an ONNX file.")]
Kind = Annotated[str, typer.Option(metavar="NAME", help="Of a model of the zoo: fp32 or fp16.")]
Cache = Annotated[Path | None, typer.Option(help="For built models. [default: ~/.cache/simcap]")]
Seed = Annotated[int, typer.Option(min=0, help="Of the weights of a model of the zoo.")]
SHOWN_OPERATORS = 8


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """Name the models that the zoo can build, with the millions of parameters of their encoders."""
    from calibrate.model_zoo.architecture import DIMENSIONS, EXIT_LAYERS, HEADS, SIZES, names
    from simcap import screen

    rows = []
    for name in names():
        size = next(s for s in SIZES if name.startswith(f"{s}-"))
        head = HEADS[name.removeprefix(f"{size}-")]
        rows.append((name, head.task, str(head.outputs or "-"), f"{SIZES[size].encoder_parameters / 1e6:.1f}"))
    if as_json:
        columns = ("name", "task", "outputs", "encoder_parameters_m")
        numbers = [(n, task, None if o == "-" else int(o), float(m)) for n, task, o, m in rows]
        print_json([dict(zip(columns, row, strict=True)) for row in numbers])
        return
    columns = ("model", "task", "outputs", "encoder M")
    screen.print_table(columns, rows, right=columns[2:])
    layers, lengths = (", ".join(map(str, known)) for known in (EXIT_LAYERS, DIMENSIONS))
    screen.print_wrapped(
        f"an embedding's name may end in -lN, an exit after layer N ({layers}), and in -dN, its first N dimensions "
        f"({lengths}), as far as its size has them"
    )


@app.command()
def build(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A model of the zoo.")],
    out: Annotated[Path | None, typer.Option(help="Where to write it. [default: the cache]")] = None,
    artifact: Kind = "fp32",
    cache: Cache = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Build a model of the zoo and print where it is."""
    from calibrate.model_zoo.architecture import spec_of
    from calibrate.model_zoo.cache import cache_directory, ensure
    from profiles.errors import InputError
    from profiles.store import write_whole

    spec = spec_of(name, seed, artifact=artifact)
    if out is not None and cache is not None:
        raise InputError("--out and --cache are two places for one file; name one")
    if out is None:
        _say_file(ensure(spec, cache_directory(cache)), as_json)
        return
    if out.is_dir():
        raise InputError(f"--out {out}: is a directory; name a file, such as {out / f'{name}-{artifact}.onnx'}")
    from calibrate.model_zoo.heads import build as built

    write_whole(out, built(spec).SerializeToString(deterministic=True))
    _say_file(out, as_json)


def _say_file(path: Path, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(path)})
    else:
        typer.echo(str(path))


@app.command()
def inspect(
    name: Name,
    as_json: Json = False,
    artifact: Kind = "fp32",
    cache: Cache = None,
    seed: Seed = 1,
) -> None:
    """Print inputs, outputs, opset, parameters, types and digest of a model; one of the zoo is built first."""
    from dataclasses import asdict

    from calibrate.model_zoo.facts import facts_of
    from simcap import screen

    path = _file(name, artifact, cache, seed)
    facts = facts_of(path)
    if as_json:
        screen.print_json({**asdict(facts), "parameters": facts.parameters})
        return
    shown = list(facts.operators.items())[:SHOWN_OPERATORS]
    rest = len(facts.operators) - len(shown)
    screen.print_pairs(
        {
            "file": str(path),
            **{f"input {i}": _told(t) for i, t in enumerate(facts.inputs)},
            **{f"output {i}": _told(t) for i, t in enumerate(facts.outputs)},
            "opset": ", ".join(f"{domain} {version}" for domain, version in facts.opsets.items()),
            "parameters": f"{facts.parameters:,}",
            "types": ", ".join(f"{dtype} {count:,}" for dtype, count in facts.dtypes.items()) or "(none)",
            "operators": ", ".join(f"{n} {op}" for op, n in shown) + (f", {rest} kinds more" if rest > 0 else ""),
            "size": f"{facts.size_bytes:,} bytes",
            "digest": facts.digest,
        }
    )


@app.command()
def verify(
    name: Name,
    tokens: Annotated[int, typer.Option(min=1, help="Of the text that is run.")] = 16,
    artifact: Kind = "fp32",
    cache: Cache = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Check a model's graph, and run it once where ONNX Runtime is at hand: its outputs must be finite."""
    from calibrate.artifacts import OWN_MAX_ID
    from calibrate.environments import interpreters
    from calibrate.launch import WorkerLauncher
    from calibrate.model_zoo.cache import cache_directory
    from calibrate.model_zoo.facts import check_graph, run_once
    from calibrate.runtimes import probe
    from profiles.errors import UnavailableError

    path = _file(name, artifact, cache, seed)
    check_graph(path)
    if not as_json:
        typer.echo(f"{path}: the ONNX checker passes it")
    try:
        launch = WorkerLauncher(interpreters(["cpu"], cache_directory(cache), {})["cpu"])
        version = probe(launch, "cpu").onnxruntime
    except UnavailableError as error:
        if as_json:
            print_json({"file": str(path), "checked": True, "run": None, "not_run": str(error)})
        else:
            typer.echo(f"not run: {error}")
        return
    seconds = run_once(path, launch, tokens, OWN_MAX_ID, seed)
    if as_json:
        run = {"tokens": tokens, "onnxruntime": version, "provider": "cpu", "finite": True, "first_run_s": seconds}
        print_json({"file": str(path), "checked": True, "run": run, "not_run": None})
        return
    typer.echo(f"one text of {tokens} tokens on ONNX Runtime {version}, cpu: finite, first run {seconds * 1000:.2f} ms")


def _file(name: str, artifact: str, cache: Path | None, seed: int) -> Path:
    """The file itself, or a model of the zoo, built first when the cache does not have it."""
    from calibrate.model_zoo.architecture import spec_of
    from calibrate.model_zoo.cache import cache_directory, ensure
    from profiles.errors import InputError

    path = Path(name)
    if path.is_file():
        return path.resolve()
    if path.suffix == ".onnx" or len(path.parts) > 1:
        raise InputError(f"{name}: no such file")
    return ensure(spec_of(name, seed, artifact=artifact), cache_directory(cache))


def _told(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype} [{', '.join(map(str, tensor.shape))}]"
