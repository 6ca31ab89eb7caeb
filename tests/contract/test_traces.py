"""Traces: each format, by its header; every broken line by its number; bounded memory for millions of rows."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.errors import InputError
from scenarios import text_lines, traces
from scenarios.arrivals import Trace
from scenarios.trace_fields import BadLineError, Clock, token_count, token_counts

ROOT = Path(__file__).resolve().parents[2]
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
SPLITWISE = "timestamp,num_prefill_tokens,num_decode_tokens\n0.5,10,1\n0.75,20,2\n4,30,3\n"
ROUTER = "".join(
    json.dumps({"timestamp": t, "prompt_tokens": n, "generated_tokens": 5, "category": c}) + "\n"
    for t, n, c in ((1, 100, "prose"), (1, 200, "code"), (2.5, 300, "prose"))
)


def read(path: Path, names: tuple[str, ...] = ("chat",), limit: int = 10**9, **fields: Any) -> traces.TraceRows:
    return traces.read(Trace.model_validate({"process": "trace", "path": str(path), **fields}), names, limit)


def written(directory: Path, text: str, name: str = "trace") -> Path:
    path = directory / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "times", "tokens"),
    [
        (AZURE, [0, 4.314579], [374, 396]),
        (AZURE.replace("2023-11-16 18:15:", ""), [0, 4.314579], [374, 396]),
        (SPLITWISE, [0, 0.25, 3.5], [10, 20, 30]),
        (ROUTER, [0, 0, 1.5], [100, 200, 300]),
        ("timestamp,prompt_tokens,generated_tokens,selected_model\n3,7,1,a\n4,8,1,b\n", [0, 1], [7, 8]),
    ],
    ids=["azure", "azure numbers", "splitwise", "router", "router csv"],
)
def test_each_format_is_known_by_its_columns(
    tmp_path: Path, text: str, times: list[float], tokens: list[int], packed: bool
) -> None:
    """Seconds since the first request and prompt tokens, whatever the container, its name, or whether it is packed."""
    path = written(tmp_path, text)
    if packed:
        path.write_bytes(gzip.compress(text.encode()))
    rows = read(path)
    np.testing.assert_allclose(rows.times_s, times, atol=2e-6)
    assert rows.tokens is not None
    assert rows.tokens.tolist() == tokens
    assert (rows.at_end, rows.skipped) == (True, 0)


def test_other_logs_by_a_column_map(tmp_path: Path) -> None:
    """Columns are named by the scenario, values of the class column become classes, milliseconds become seconds."""
    text = 'ts,who,n_in,kind\n1000,x,5,short\n1250,"y,z",6,long\n'
    rows = read(
        written(tmp_path, text),
        names=("chat", "long"),
        columns={"timestamp": "ts", "tokens": "n_in", "class": "kind"},
        classes={"short": "chat"},
        time_unit="ms",
    )
    assert rows.times_s.tolist() == [0, 0.25]
    assert rows.class_of is not None
    assert rows.class_of.tolist() == [0, 1]
    assert rows.range_of_tokens(1) == (6, 6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("when,len\n1,2\n", r":1: columns are when, len; known formats have TIMESTAMP, ContextTokens; .*columns"),
        ("timestamp,num_prefill_tokens,prompt_tokens\n1,2,3\n", ":1: .*fit more than one known format"),
        (SPLITWISE + "5,4\n", ":5: 2 fields where the header has 3: a cut or broken line"),
        (SPLITWISE + "5,x,1\n", ":5: token count 'x' is not a whole number"),
        (SPLITWISE + "5,0,1\n", ":5: '0' tokens; a request has 1 to 10000000"),
        (SPLITWISE + "5,1.5,1\n", ":5: token count '1.5'"),
        (SPLITWISE + "soon,1,1\n", ":5: timestamp 'soon' is not a number"),
        (SPLITWISE + "nan,1,1\n", ":5: timestamp 'nan' is not a number"),
        (SPLITWISE + '"5,1,1\n', ":5: a quote that is not closed"),
        (SPLITWISE + "\n\n3.5,1,1\n", ":7: its time is 0.5 s before .*sort: true"),
        (AZURE + "7,1,1\n", ":4: timestamp '7' is neither a number nor a date and time"),
        (ROUTER + '{"timestamp": 3, "prompt_tok', ":4: not JSON: a cut or broken line"),
        (ROUTER + '{"timestamp": 3}\n', ":4: no key 'prompt_tokens'; found timestamp"),
        (ROUTER + '{"timestamp": true, "prompt_tokens": 3}\n', ":4: timestamp True is not a number"),
        (ROUTER + '{"timestamp": 3, "prompt_tokens": true}\n', ":4: token count True is not a whole number"),
        (ROUTER + "[3, 4]\n", ":4: not a JSON object"),
        ("", "the trace is empty"),
        ("timestamp,prompt_tokens\n", "no request in it"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    """A trace that cannot be replayed as it stands is refused, with the line and what would help."""
    with pytest.raises(InputError, match=says):
        read(written(tmp_path, text))


@pytest.mark.parametrize("breaks", ["5,4", "5,x,1", "soon,1,1", '"5,1,1'])
def test_broken_lines_are_skipped_only_by_choice_and_counted(tmp_path: Path, breaks: str) -> None:
    """With `on_bad_line: skip` the others are replayed, and the result can say how many lines were left out and why."""
    rows = read(written(tmp_path, SPLITWISE + breaks + "\n6,40,1\n"), on_bad_line="skip")
    assert rows.times_s.tolist() == [0, 0.25, 3.5, 5.5]
    assert rows.skipped == 1
    assert rows.bad[0].startswith("line 5: ")


def test_an_unknown_class_is_never_skipped(tmp_path: Path) -> None:
    """A value of the class column that maps to no class is an error with the nearest name, even under skip."""
    with pytest.raises(InputError, match=r":2: category is 'code', which is neither a class .* did you mean 'coding'"):
        read(
            written(tmp_path, ROUTER),
            names=("prose", "coding"),
            columns={"class": "category"},
            on_bad_line="skip",
        )


def test_sort_orders_by_time_before_the_first_are_taken(tmp_path: Path) -> None:
    """With `sort: true` the first requests by time are replayed, each with its own length."""
    rows = read(written(tmp_path, "timestamp,prompt_tokens\n9,1\n7,2\n8,3\n"), limit=2, sort=True)
    assert rows.times_s.tolist() == [0, 1]
    assert rows.tokens is not None
    assert rows.tokens.tolist() == [2, 3]
    assert not rows.at_end


def test_only_the_wanted_requests_are_read(tmp_path: Path) -> None:
    """A line that comes after the wanted requests is not looked at, and the rows know that there are more."""
    rows = read(written(tmp_path, SPLITWISE + "broken\n"), limit=2)
    assert len(rows) == 2
    assert not rows.at_end
    assert read(written(tmp_path, SPLITWISE), limit=3).at_end


@pytest.mark.parametrize(("keep", "says"), [(-12, "cut off"), (-1, "cut off")])
def test_a_cut_gzip_file_is_refused_with_its_line(tmp_path: Path, keep: int, says: str) -> None:
    """A packed trace that ends early is an error that says how many whole lines came before, even under skip."""
    text = SPLITWISE + "".join(f"{5 + i},{i + 1},1\n" for i in range(5000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(text.encode())[:keep])
    with pytest.raises(InputError, match=rf"t\.gz:\d+: the gzip file is {says} here; \d+ whole lines came before"):
        read(path, on_bad_line="skip")


def test_a_damaged_gzip_file_and_a_missing_one_are_errors_of_ours(tmp_path: Path) -> None:
    """Flipped bytes, a directory and a wrong path are named."""
    packed = bytearray(gzip.compress(SPLITWISE.encode() * 50))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "t.gz"
    path.write_bytes(bytes(packed))
    with pytest.raises(InputError, match=r"t\.gz:\d+: "):
        read(path)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A file that is one endless line is refused at the limit of a line."""
    with pytest.raises(InputError, match=f":1: a line of more than {text_lines.MAX_LINE} characters"):
        read(written(tmp_path, "x" * (text_lines.MAX_LINE + text_lines.BLOCK)))


Rows = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 10**7), st.sampled_from(["a", "b, c", 'd"e', "ü"])),
    min_size=1,
    max_size=40,
)
KINDS = ("a", "b, c", 'd"e', "ü")


def _as_csv(path: Path, rows: list[tuple[int, int, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["timestamp", "num_prefill_tokens", "kind"])
        out.writerows((f"{us / 1e6:.6f}", tokens, kind) for us, tokens, kind in rows)


def _as_azure(path: Path, rows: list[tuple[int, int, str]]) -> None:
    begin = datetime(2023, 11, 16)  # noqa: DTZ001 - the published trace has no zone
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["TIMESTAMP", "ContextTokens", "kind"])
        for us, tokens, kind in rows:
            out.writerow([f"{(begin + timedelta(microseconds=us)).isoformat(' ', 'microseconds')}0", tokens, kind])


def _as_json(path: Path, rows: list[tuple[int, int, str]]) -> None:
    lines = (json.dumps({"timestamp": us / 1e6, "prompt_tokens": n, "kind": kind}) for us, n, kind in rows)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.mark.parametrize("write", [_as_csv, _as_azure, _as_json])
@settings(deadline=None, max_examples=40)
@given(rows=Rows, block=st.sampled_from([64, 1000, text_lines.BLOCK]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    write: Callable[[Path, list[tuple[int, int, str]]], None],
    rows: list[tuple[int, int, str]],
    block: int,
) -> None:
    """Times, lengths and classes come back from every format, with quotes and commas, wherever blocks are cut."""
    rows = sorted(rows, key=lambda row: row[0])
    path = tmp_path_factory.mktemp("trace") / "t"
    write(path, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "BLOCK", block)
        found = read(path, names=KINDS, columns={"class": "kind"})
    assert found.tokens is not None
    assert found.class_of is not None
    np.testing.assert_allclose(found.times_s, [(us - rows[0][0]) / 1e6 for us, _, _ in rows], atol=1e-6, rtol=0)
    assert found.tokens.tolist() == [tokens for _, tokens, _ in rows]
    assert [KINDS[k] for k in found.class_of] == [kind for _, _, kind in rows]


Stamp = st.one_of(
    st.floats(-1e9, 1e9).map(str),
    st.floats(-1e9, 1e9),
    st.integers(-(10**9), 10**9),
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)).map(str),  # noqa: DTZ001 - with and without a zone
    st.sampled_from(["", "nan", "inf", "2023-11-16T00:00:00Z", " 5 ", True, None]),
)


@settings(deadline=None)
@given(first=Stamp, stamps=st.lists(Stamp, min_size=1, max_size=5))
def test_a_column_of_timestamps_is_read_as_its_fields_are(first: Any, stamps: list[Any]) -> None:
    """The fast way gives the values of the careful way, or leaves the column to it."""
    clock = Clock(1.0)
    try:
        clock.one(first)
    except BadLineError:
        return
    fast = clock.many(stamps)
    if fast is not None:
        assert fast.tolist() == [clock.one(stamp) for stamp in stamps]


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.integers(-5, 10**8), st.integers().map(str), st.floats().map(str), st.booleans()), min_size=1)
)
def test_a_column_of_token_counts_is_read_as_its_fields_are(values: list[Any]) -> None:
    """The fast way gives the values of the careful way, or leaves the column to it."""
    fast = token_counts(values)
    if fast is not None:
        assert fast.tolist() == [token_count(value) for value in values]


WRITE_AND_READ = textwrap.dedent("""
    import sys
    from pathlib import Path
    from scenarios import traces
    from scenarios.arrivals import Trace
    path, kind = sys.argv[1:]
    rows = traces.read(Trace(process="trace", path=path), ["chat"], 10**8)
    # VmHWM and not ru_maxrss, which a child takes over from the process that started it
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(len(rows), rows.tokens.sum(), rows.times_s[-1], peak.split()[1])
""")


def _long(path: Path, kind: str, rows: int) -> None:
    """`rows` requests, 20 ms apart, lengths 1 to 1000 in turn; written by the thousand to be quick."""
    with gzip.open(path, "wt", compresslevel=1) if kind == "jsonl.gz" else path.open("w") as stream:
        if kind == "csv":
            stream.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        form = (
            "{}{:02d},{},1\n"
            if kind == "csv"
            else '{{"timestamp": {}{:02d}, "prompt_tokens": {}, "category": "code"}}\n'
        )
        for begin in range(0, rows, 1000):
            stream.writelines(form.format(f"{(begin + i) // 50}.", (begin + i) % 50 * 2, i + 1) for i in range(1000))


@pytest.mark.parametrize("kind", ["csv", pytest.param("jsonl.gz", marks=pytest.mark.slow)])
def test_memory_stays_bounded(tmp_path: Path, kind: str) -> None:
    """A process that reads two million requests never holds 500 MB, Python and libraries included."""
    rows = 2_000_000
    path = tmp_path / f"trace.{kind}"
    _long(path, kind, rows)
    done = subprocess.run(
        [sys.executable, "-c", WRITE_AND_READ, str(path), kind], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, tokens, last, peak_kib = done.stdout.split()
    assert int(count) == rows
    assert int(tokens) == rows // 1000 * 500_500
    assert float(last) == pytest.approx((rows - 1) / 50)
    assert int(peak_kib) * 1024 < 500e6
