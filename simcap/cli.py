"""The `simcap` command: the only place that prints errors and exits.

Enters: the command line. Leaves: an exit code: 0 done, 1 an error of ours or of the machine, 2 wrong input (the file, the
key, the flag), 3 hardware or runtime not here, 4 done but the result needs attention, 5 interrupted. A command's module
is imported when the command is called, so that `simcap --help` loads neither numpy nor pydantic.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any

import typer
import typer.core

from profiles.errors import SimcapError

INTERRUPTED = 5

COMMANDS: dict[str, str] = {
    "run": "Replay a scenario: how much load keeps the promise, and what breaks first.",
    "capacity": "Find the highest load that keeps the SLO, or the least that a load needs.",
    "whatif": "Change one thing at a time: what is it worth, and whose is it to change.",
    "compare": "Compare runs or scenarios: what changed, and is it more than chance.",
    "strategy": "Write which execution providers to use, in which order, and why.",
    "report": "Write documents from finished runs: the performance report.",
    "validate": "Check predictions against theory, published figures or measurements.",
    "calibrate": "Measure models on this machine and write a profile.",
    "models": "List, build, inspect or verify models.",
    "runtimes": "Install, list or remove builds of ONNX Runtime.",
    "doctor": "Say what this machine can measure and what is missing.",
    "scenarios": "List, show or describe scenarios.",
    "profiles": "List, show, merge or describe profiles.",
    "export": "Write profiles, curves and hardware for fleet-sim.",
    "import": "Turn a fleet-sim file or a router configuration into a scenario.",
    "study": "Bundle a run with its inputs, or run a bundle again and compare.",
}
"""Command -> the line that `--help` shows. Module simcap.commands.<name> (`import_` for import) holds `app` (a group) or a function <name>."""


class LazyGroup(typer.core.TyperGroup):
    """A group that imports a command's module when the command is looked up by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"simcap.commands.{cmd_name}{'_' if iskeyword(cmd_name) else ''}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(name=cmd_name)(getattr(module, cmd_name))
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As inherited, but a wrong name is answered with the nearest command."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from profiles.errors import nearest

            ctx.fail(f"no command {args[0]!r}; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table of commands from COMMANDS; the inherited method would import every one of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted: the command stopped before it finished; no partial result was kept", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(cls=LazyGroup, add_completion=True, rich_markup_mode=None, no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"simcap {version('vllm-sr-simcap')}")
        raise typer.Exit


@app.callback()
def simcap(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """How much traffic a vLLM Semantic Router node takes before it breaks its latency promise, and what breaks first."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. `arguments` default to those of the process."""
    command = typer.main.get_command(app)
    try:
        command.main(args=None if arguments is None else list(arguments), prog_name="simcap")
    except SimcapError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:  # a full disk, a folder that cannot be written
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)


def _fail(message: str, code: int) -> None:
    first, *rest = message.splitlines() or [""]
    typer.echo("\n".join((f"error: {first}", *(f"       {line}" for line in rest))), err=True)
    sys.exit(code)
