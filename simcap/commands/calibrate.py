"""`simcap calibrate`: measure models on this machine and write a profile.

Enters: flags. Leaves: the profile's file and, on stdout, a table of what was measured. Exit code 4 when the profile was
written but some cells could not be measured. Errors are raised for `simcap.cli` to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError, SimcapError, nearest

if TYPE_CHECKING:
    from calibrate.artifacts import OwnModel
    from calibrate.request import Finished
    from calibrate.run import Progress, Rules
    from profiles.entry import ProviderName

FULL = {"models": "mmbert32k-intent,mmbert32k-jailbreak,mmbert32k-pii", "budget": "10m"}
QUICK = {"models": "mmbert-mini-intent,mmbert-mini-jailbreak,mmbert-mini-pii", "budget": "40"}
TOKENS = "32,64,128,256,512"
QUICK_TOKENS = "32,128,512"
"""With --quick and several providers: their compiles and comparisons take the time of two further lengths."""
SECONDS_OF = {"s": 1, "m": 60, "h": 3600}
BYTES_OF = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
MEMORY_SHARE = 0.9
"""Of the machine's memory, for one worker: beyond it the kernel would choose whom to kill, and might choose us."""


class StoppedError(SimcapError):
    """The person at the terminal stopped the run; what was measured waits in the journal."""

    exit_code = 5


def _read_plan(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the plan's values the defaults of the other options."""
    if path is not None:
        from calibrate.plan_file import flags_of

        ctx.default_map = flags_of(path)
    return path


def calibrate(
    ctx: typer.Context,
    gpu: Annotated[str, typer.Option(help="Device of the hardware catalog; this machine's processor is `cpu`.")],
    quick: Annotated[bool, typer.Option("--quick", help="Three mini models: a minute or two.")] = False,
    models: Annotated[str | None, typer.Option(metavar="A,B", help="Models of the zoo.")] = None,
    artifacts: Annotated[str, typer.Option(metavar="A,B", help="Of models of the zoo: fp32, fp16.")] = "fp32",
    model: Annotated[list[str] | None, typer.Option(metavar="NAME=FILE.onnx", help="Your own. Repeatable.")] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N,N", help="Token counts. [default: 32,64,128,256,512]")
    ] = None,
    batch: Annotated[str, typer.Option(metavar="N,N", help="Batch sizes.")] = "1",
    providers: Annotated[str, typer.Option(metavar="A,B", help="Execution providers.")] = "cpu",
    runtime: Annotated[list[str] | None, typer.Option(metavar="PROVIDER=PYTHON", help="Its interpreter.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="PROVIDER.NAME=VALUE", help="Of a provider.")] = None,
    gate: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEAST", help="Least agreement. [default: embedding-cosine=0.83]")
    ] = None,
    custom_ops: Annotated[
        list[str] | None,
        typer.Option("--custom-ops", metavar="[PROVIDER=]LIB.so", help="Custom operators to register. [default: rocm]"),
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="A,B", help="Also as converted by the provider: fp16, bf16 (migraphx, openvino).")
    ] = "",
    concurrency: Annotated[str, typer.Option(metavar="N,N", help="Inferences at once, as 2,4: gives occupancy.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="An error when a provider does not do the work.")] = False,
    scenario: Annotated[str | None, typer.Option(help="Measure its models in its own pool, together.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of a session. [default: all cores]")] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="As 90, 20m or 2h. [default: 10m]")] = None,
    cell_limit: Annotated[str, typer.Option(metavar="TIME", help="A cell that takes longer is given up.")] = "10m",
    cell_memory: Annotated[
        str | None, typer.Option(metavar="BYTES", help="As 8G; more is given up. [default: 90 % of the machine's]")
    ] = None,
    cadence: Annotated[str, typer.Option(metavar="A,B", help="tight: back to back; paced: idle gaps.")] = "tight,paced",
    out: Annotated[Path, typer.Option(help="The profile to write.")] = Path("cpu.profile.json"),
    cache: Annotated[Path | None, typer.Option(help="For built models. [default: ~/.cache/simcap]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, token ids, gaps and order.")] = 1,
    plan: Annotated[  # noqa: ARG001 - read before the others, whose defaults it sets
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A YAML file with these options; flags go before it.",
            callback=_read_plan,
            is_eager=True,
        ),
    ] = None,
) -> None:
    """Measure models on this machine and write a profile. A stopped run goes on where it was."""
    from calibrate.custom_ops import parse_libraries
    from calibrate.drift import parse_gates
    from calibrate.environments import parse_runtime
    from calibrate.gpus import check_device
    from calibrate.launch import WorkerLauncher
    from calibrate.machine import available_cores, memory_limit
    from calibrate.model_zoo.cache import cache_directory
    from calibrate.request import Request, carry_out
    from simcap.calibrated import say

    if scenario is not None:
        from simcap.commands.calibrate_in_place import in_place, refuse_others

        refuse_others(ctx)
        counts = [] if tokens is None else _counts("--tokens", tokens)
        seconds = seconds_of("--budget", budget or "1m")
        in_place(
            scenario, gpu, _own(model or []), seconds, out, cache, seed, runtime or [], tokens=counts, threads=threads
        )
        return
    found = check_device(gpu)
    preset = QUICK if quick else FULL
    zoo = models if models is not None else "" if model else preset["models"]
    request = Request(
        models=_words(zoo),
        own=_own(model or []),
        providers=_words(providers),
        tokens=_counts(
            "--tokens", tokens if tokens is not None else QUICK_TOKENS if quick and "," in providers else TOKENS
        ),
        batches=_counts("--batch", batch),
        threads=threads or available_cores(),
        rules=_rules(budget or preset["budget"], cell_limit, cadence, quick),
        seed=seed,
        cache=cache_directory(cache),
        out=out,
        gpu=gpu,
        search=found,
        runtimes=dict(parse_runtime(argument) for argument in runtime or []),
        options=_options(option or []),
        gates=parse_gates(gate or []),
        strict=strict,
        widths=_counts("--concurrency", concurrency) if concurrency else (),
        artifacts=list(dict.fromkeys(_words(artifacts))),
        libraries=parse_libraries(custom_ops or []),
        precisions=list(dict.fromkeys(_words(precision))),
    )
    most = bytes_of("--cell-memory", cell_memory) if cell_memory else int(MEMORY_SHARE * memory_limit())
    with _progress() as report:
        finished = _until_stopped(lambda: carry_out(request, partial(WorkerLauncher, memory_limit=most), report))
    say(request, finished)


def _until_stopped(work: Callable[[], Finished]) -> Finished:
    try:
        return work()
    except KeyboardInterrupt:
        raise StoppedError(
            "stopped; the cells measured so far are kept, and the same command goes on from there"
        ) from None


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _own(arguments: Sequence[str]) -> list[OwnModel]:
    from calibrate.artifacts import parse_own

    return [parse_own(argument) for argument in arguments]


def _options(arguments: Sequence[str]) -> dict[ProviderName, dict[str, str]]:
    from calibrate.provider_options import parse_option

    found: dict[ProviderName, dict[str, str]] = {}
    for provider, name, value in map(parse_option, arguments):
        found.setdefault(provider, {})[name] = value
    return found


def _counts(flag: str, text: str) -> list[int]:
    """Positive whole numbers, each once, increasing."""
    words = _words(text)
    if not words or not all(w.isascii() and w.isdigit() and 0 < int(w) <= 1_000_000 for w in words):
        raise InputError(
            f"{flag} {text!r}: expected whole numbers of at least 1, separated by commas, as in 32,128,512"
        )
    return sorted({int(w) for w in words})


def seconds_of(flag: str, text: str) -> float:
    """`90`, `90s`, `20m`, `2h` in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in SECONDS_OF else (text, "s")
    try:
        value = float(number) * SECONDS_OF[unit]
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise InputError(f"{flag} {text!r}: expected a time above zero, as in 90, 90s, 20m or 2h")
    return value


def bytes_of(flag: str, text: str) -> int:
    """`8G`, `500M` or plain bytes; K, M, G, T are powers of 1024."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in BYTES_OF else (text, "")
    try:
        value = float(number) * BYTES_OF.get(unit, 1)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise InputError(f"{flag} {text!r}: expected an amount of memory above zero, as in 8G, 500M or 2000000000")
    return int(value)


def _rules(budget: str, cell_limit: str, cadence: str, quick: bool) -> Rules:
    from calibrate.run import CadenceName, Rules

    known: dict[str, CadenceName] = {"tight": "tight", "paced": "paced"}
    wanted = _words(cadence)
    for name in wanted:
        if name not in known:
            raise InputError(f"--cadence: no cadence {name!r}; {nearest(name, known)}")
    if not wanted:
        raise InputError(f"--cadence {cadence!r}: name tight, paced, or both")
    return Rules(
        budget_s=seconds_of("--budget", budget),
        cell_limit_s=seconds_of("--cell-limit", cell_limit),
        cadences=tuple(c for name, c in known.items() if name in wanted),
        loads=2 if quick else 3,
        at_least=6 if quick else 10,  # six are the fewest that give the median an interval
    )


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A line with cells done and time left; nothing without a terminal."""
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TextColumn("{task.description}", markup=False))
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(now: Progress) -> None:
            left = "" if now.left_s is None else f"{round(now.left_s) // 60}:{round(now.left_s) % 60:02d} left  "
            bar.update(task, completed=now.done, total=now.total, description=left + now.doing)

        yield report
