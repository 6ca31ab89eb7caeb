"""Every command on every page does what the page says; what cannot run here says why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simcap.cli import COMMANDS
from tests.docs.pages import PAGES, ROOT, RUN, Block, blocks_of, name_of, not_run, prose_of

TOOLS = r"(?:simcap|make|pip|python3?(?:\.\d+)?|git|cd|cat|cp|mkdir|sed)"


def runs(block: Block) -> bool:
    return block.language in RUN and "not-run" not in block.says


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That of a person who has activated the virtual environment and works on a terminal of 80 columns."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("COV", "PYTEST"))}
    binaries = Path(sys.executable).parent
    models = tmp_path_factory.mktemp("models")
    return kept | {"PATH": f"{binaries}{os.pathsep}{kept['PATH']}", "SIMCAP_CACHE": str(models), "COLUMNS": "80"}


@pytest.mark.parametrize("page", [p for p in PAGES if any(map(runs, blocks_of(p.read_text())))], ids=name_of)
def test_commands_of_a_page_do_what_it_says(page: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Typed in order in one empty folder, each command ends with the code, and where marked the text, that the page states."""
    for block in blocks_of(page.read_text()):
        if "file" in block.says:
            (tmp_path / block.says["file"]).write_text(block.text + "\n")
        if not runs(block):
            continue
        commands = block.commands()
        assert commands, f"{name_of(page)}:{block.line}: a block of commands without a command; start each with `$ `"
        for k, command in enumerate(commands):
            last = k == len(commands) - 1
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=500,
            )
            wanted = block.says.get("exit", "0").split(" or ") if last else ["0"]
            assert str(done.returncode) in wanted, f"{name_of(page)}:{block.line}: $ {command}\n{done.stdout}"
            if last and "exact" in block.says:
                printed = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")
                assert printed == block.shown(), f"{name_of(page)}:{block.line}: $ {command} prints\n{printed}"


def test_what_is_not_run_says_why() -> None:
    """A block that is left out gives a reason of several words, and is on the list that `make test` prints."""
    told = not_run()
    for page, block in told:
        assert len(block.says["not-run"].split()) >= 3, f"{page}:{block.line}: not-run without a reason"
    assert any("make test" in block.commands() for _, block in told)  # the README's, which cannot run itself


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_command_hides_from_this_test(page: Path) -> None:
    """Commands stand in `console` or `sh` blocks; none in an indented block or in a fence of another language."""
    text = page.read_text()
    hidden = [f"{n}: {line}" for n, line in prose_of(text) if re.match(rf"^ {{4,}}(?:\$ )?{TOOLS} \S", line)]
    for block in blocks_of(text):
        if block.language not in RUN:
            hidden += [f"{block.line}: {x}" for x in block.text.splitlines() if re.match(rf"^(?:\$ )?{TOOLS} \S", x)]
    assert not hidden, f"{name_of(page)}: move into a ```console block with `$ `:\n" + "\n".join(hidden)


def test_the_reader_of_pages_sees_what_is_there() -> None:
    """Comments belong to the next fence only; a command may go on over lines; output is no command."""
    page = "<!-- exit: 2 -->\n\n```console\n$ a\nout\n$ b <<X\n> c\n> X\nshown\n```\n\n```console\n$ d\n```\n"
    first, second = blocks_of(page)
    assert first.commands() == ["a", "b <<X\nc\nX"]
    assert (first.shown(), first.says, second.says) == ("shown", {"exit": "2"}, {})
    with pytest.raises(ValueError, match="never closed"):
        blocks_of("```sh\nls\n")


def test_pages_are_found() -> None:
    """The list of pages holds the README and the tutorial, so that an empty list cannot pass for a clean one."""
    assert {ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-run.md"} <= set(PAGES)


def test_the_reference_names_every_command() -> None:
    """A command of the command line has its row in the table of docs/reference/commands.md."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"| `simcap {name}" not in page] == []
