"""The script that draws the figures of a page: Vega, Vega-Lite and Vega-Embed as one text, from vl-convert; nothing is fetched.

Enters: nothing but the versions that are installed. Leaves: JavaScript that is safe inside a script element. Making it
costs 1.4 s of CPU, so it is made once a version and kept in simcap's cache directory, behind a first line with the digest of
the rest: a file that is cut short or damaged is made again. A directory that cannot be written to
only costs the time.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

GLOBALS = "window.vegaEmbed = vegaEmbed;"


def script() -> str:
    """The script, from the cache where it is there and whole."""
    from calibrate.model_zoo.cache import cache_directory
    from profiles.store import write_whole

    path = path_in(cache_directory())
    kept = read(path)
    if kept is not None:
        return kept
    made = make()
    try:
        write_whole(path, f"{_digest(made)}\n{made}".encode())
    except OSError:
        return made
    return made


def path_in(cache: Path) -> Path:
    """Where the script of the installed versions is kept."""
    from simcap.report.plots import vega_lite_version

    how = hashlib.sha256(GLOBALS.encode()).hexdigest()[:8]
    return cache / "report" / f"vega-lite-{vega_lite_version()}-vl-convert-{version('vl-convert-python')}-{how}.js"


def read(path: Path) -> str | None:
    """What a cache file holds, or None where it is not there or not whole."""
    try:
        digest, _, text = path.read_bytes().decode().partition("\n")
    except (OSError, UnicodeError):
        return None
    return text if digest == _digest(text) else None


def make() -> str:
    """The script from vl-convert, with nothing in it that would end its element."""
    import vl_convert

    from simcap.report.plots import vega_lite_version

    bundle: str = vl_convert.javascript_bundle(GLOBALS, vl_version=vega_lite_version())
    return bundle.replace("</script", "<\\/script")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
