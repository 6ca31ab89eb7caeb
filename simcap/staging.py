"""A directory written whole or not at all: filled under a temporary name beside its target, then swapped by renaming.

Enters: the target, and a check that it may still be replaced. Leaves: the target as it was, or as it was filled.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged(target: Path, still_free: Callable[[], None]) -> Iterator[Path]:
    """A directory to fill, which takes the target's place at the end; on any error nothing of it is left.

    `still_free` is called last of all before the swap and raises if the target may not be replaced any more.
    """
    made = [parent for parent in target.absolute().parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        staging.chmod(0o755)
        yield staging
        still_free()
        _swap(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for parent in made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        raise


def _swap(staging: Path, target: Path) -> None:
    """Put `staging` where `target` is; should that fail, `target` is back where it was."""
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        if target.exists():
            target.replace(old)
        staging.replace(target)
    except BaseException:
        if not target.exists() and any(old.iterdir()):
            old.replace(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
