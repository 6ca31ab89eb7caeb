"""The entries of the published profile: what is published, what is modeled from it, and what is assumed.

Enters: rows of profiles/data/mi300x_published.csv and the `Fit`. Leaves: `profiles.entry.Entry`, in seconds and bytes,
every number with its source and its doubt. tools/build_published_profile.py puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from published_fit import CHOSEN, LENGTHS, Cell, Fit, Row, cells_of
from published_memory import assumed_load, with_activations
from scipy import stats

from profiles import entry as entries
from profiles import quantity
from profiles.distribution import LEVELS, lognormal_about

CV = 0.02  # published p95/p50 at concurrency 1 is 1.00 to 1.04; a lognormal with this cv has 1.03

FA, SDPA_THREE = "vsr-paper-fa-concurrency", "vsr-paper-fa-vs-sdpa"
SINGLE, SIZES = "vsr-paper-gpu-acceleration", "vsr-paper-text"
MIGRAPHX, COMPILE = "vsr-pr2408-microbench", "vsr-pr2408-commit-39574e0"

TASKS: dict[str, entries.Task] = {
    "mmbert32k-intent": "sequence_classification",
    "mmbert32k-jailbreak": "sequence_classification",
    "mmbert32k-pii": "token_classification",
    "mmbert32k-fact-check": "sequence_classification",
    "mmbert32k-user-feedback": "sequence_classification",
}
MEASURED_TOGETHER = {"mmbert32k-intent", "mmbert32k-jailbreak", "mmbert32k-pii"}
MIGRAPHX_MODELS = {  # the row's model name in the table
    "mmbert32k-intent": "mmBERT-32K intent",
    "mmbert32k-jailbreak": "mmBERT-32K jailbreak",
    "mmbert32k-user-feedback": "mmBERT-32K feedback",
    "mmbert32k-pii": "mmBERT-32K PII token",
}

SPREAD = f"no spread is published: lognormal about the median with coefficient of variation {CV}, cut at 0.05 %"
NO_N = "the number of samples is not stated"
HEAD = "the source says `mmBERT-32K classifier` and not which head; the same figures stand under all five heads"
TRANSFER = "this head was not among the three that were measured (intent, jailbreak, pii); same architecture assumed"
GPU_UNNAMED = (
    "THE GPU MODEL IS NOT STATED in the source (a shared AMD validation host); nothing shows that it was an MI300X"
)
CPU_CONTRADICTION = (
    "CPU model and thread count are not stated, and other pages of the project give 201.8, 415, about 630 and 765.7 ms "
    "at 512 tokens for models of this family; use it as an order of magnitude only"
)


def rounded(values: np.ndarray) -> tuple[float, ...]:
    """Six significant digits: far below any doubt here, and the same bytes on every machine."""
    return tuple(float(f"{v:.6g}") for v in values)


def about(tokens: int, seconds: float, origin: quantity.Origin, source: str, *doubts: str) -> entries.Cell:
    """A cell with a known median and an assumed spread."""
    return entries.Cell(
        tokens=tokens,
        levels=LEVELS,
        seconds=rounded(lognormal_about(seconds, CV).values),
        n=0,
        origin=origin,
        spread_origin="assumed",
        source=source,
        doubt="; ".join((*doubts, SPREAD)),
    )


def through(tokens: int, p50: float, p95: float, p99: float, source: str, *doubts: str) -> entries.Cell:
    """A cell through published p50, p95 and p99: log(seconds) linear in the normal score, mirrored below the median."""
    z95, z99 = stats.norm.ppf([0.95, 0.99])
    low, high = np.log(p95 / p50) / z95, np.log(p99 / p95) / (z99 - z95)
    z = stats.norm.ppf(np.clip(LEVELS, 0.0005, 0.9995))
    log_seconds = np.log(p50) + low * np.minimum(z, z95) + high * np.maximum(z - z95, 0)
    return entries.Cell(
        tokens=tokens,
        levels=LEVELS,
        seconds=rounded(np.exp(log_seconds)),
        n=0,
        origin="published",
        spread_origin="published",
        source=source,
        doubt="; ".join(
            (*doubts, NO_N, "p50, p95 and p99 are published; below the median and above p99 the law is assumed")
        ),
    )


def occupancy(
    tokens: int, value: float, origin: quantity.Origin, source: str | None, doubt: str
) -> entries.OccupancyPoint:
    return entries.OccupancyPoint(tokens=tokens, value=float(f"{value:.4g}"), origin=origin, source=source, doubt=doubt)


def memory_of(rows: list[Row], artifact: str, lengths: Iterable[int]) -> entries.Memory:
    """Published size of the file, taken as the bytes of the weights, and modeled activations at each length."""
    size = "fp32" if artifact == "fp32" else "fp16"
    row = next(r for r in rows if r["source_key"] == SIZES and r["artifact"] == size)
    doubt = "size of the model file, printed in MB (taken as 10^6 bytes); growth of device memory was not published"
    figure = quantity.Figure(value=float(row["value"]) * 1e6, origin="published", source=SIZES, doubt=doubt)
    return with_activations(figure, artifact, list(lengths))


def entry(model: str, artifact: str, provider: entries.ProviderName, **known: object) -> entries.Entry:
    data = {"model": model, "artifact": artifact, "task": TASKS[model], "provider": entries.Provider(name=provider)}
    return entries.Entry.model_validate({**data, **known})


def flash_attention(model: str, rows: list[Row], fit: Fit) -> entries.Entry:
    """`ck_fa_fp16` on ROCm: own service time and occupancy by the fit."""
    origin: quantity.Origin = "modeled" if model in MEASURED_TOGETHER else "assumed"
    transfer = () if model in MEASURED_TOGETHER else (TRANSFER,)
    why = (
        "own service time is not published; solved from the median at concurrency 1 of three classifiers end to end, "
        "with equal service times, the fitted occupancy and the modeled router overhead (docs/explanation/published-fit.md)"
    )
    share = (
        f"fitted to the medians at concurrency 10, {CHOSEN}, {fit.at_ends[0]} at {LENGTHS[0]} and {fit.at_ends[1]} at "
        f"{LENGTHS[-1]} tokens; the sharing law and equal occupancies are assumed; p95 cells were not fitted"
    )
    cells = tuple(about(t, s / 1000, origin, FA, *transfer, why) for t, s in zip(LENGTHS, fit.service_ms, strict=True))
    shares = zip(LENGTHS, fit.occupancy, strict=True)
    return entry(
        model,
        "ck_fa_fp16",
        "rocm",
        service=entries.Surface(cadence="unknown", cells=cells),
        occupancy=tuple(occupancy(t, f, origin, FA, "; ".join((*transfer, share))) for t, f in shares),
        memory=memory_of(rows, "ck_fa_fp16", LENGTHS),
        load=assumed_load(),
    )


def sdpa_occupancy(single: dict[Cell, float], three: dict[Cell, float], fit: Fit) -> tuple[entries.OccupancyPoint, ...]:
    """From three classifiers end to end: g + 1 = (e2e - r) / s, occupancy g / 2, kept in 0.5 to 1."""
    points = []
    for tokens, _, _ in single:
        end_to_end = three.get((tokens, 1, "latency_p50_ms"))
        if end_to_end is None:
            doubt = "no end-to-end figure at this length (published as out of memory); 1.0 is the conservative choice"
            points.append(occupancy(tokens, 1.0, "assumed", None, doubt))
            continue
        g = (end_to_end - fit.router_ms) / single[tokens, 1, "latency_ms"] - 1
        doubt = f"(end to end - router overhead) / single - 1 = g = {g:.3f}, occupancy g / 2 kept in 0.5 to 1"
        if tokens == LENGTHS[0]:
            doubt += "; the router overhead was solved at this length with g = 1, so anything up to 0.5 fits as well"
        points.append(occupancy(tokens, min(1.0, max(0.5, g / 2)), "modeled", SDPA_THREE, doubt))
    return tuple(points)


def sdpa(model: str, rows: list[Row], fit: Fit) -> entries.Entry:
    """`sdpa_fp16` on ROCm: published single-session latency."""
    single = cells_of(rows, SINGLE, "sdpa_fp16")
    pii = "the public PII `model_sdpa_fp16.onnx` emits one row of labels a text, so it is not a token classifier"
    doubts = (HEAD, "whether it is a mean or a median is not stated", *((pii,) if model == "mmbert32k-pii" else ()))
    return entry(
        model,
        "sdpa_fp16",
        "rocm",
        service=entries.Surface(
            cadence="unknown",
            cells=tuple(about(t, ms / 1000, "published", SINGLE, *doubts) for (t, _, _), ms in single.items()),
        ),
        occupancy=sdpa_occupancy(single, cells_of(rows, SDPA_THREE, "sdpa_fp16"), fit),
        memory=memory_of(rows, "sdpa_fp16", (tokens for tokens, _, _ in single)),
        load=assumed_load(),
    )


def cpu(model: str, rows: list[Row]) -> entries.Entry:
    """`fp32` on the CPU provider: the published baseline, with its contradictions."""
    single = cells_of(rows, SINGLE, "fp32")
    share = "not published; 1.0 says that one inference takes the whole CPU, as ONNX Runtime's default threads do"
    cells = tuple(about(t, ms / 1000, "published", SINGLE, HEAD, CPU_CONTRADICTION) for (t, _, _), ms in single.items())
    return entry(
        model,
        "fp32",
        "cpu",
        service=entries.Surface(cadence="unknown", cells=cells),
        occupancy=tuple(occupancy(t, 1.0, "assumed", None, share) for t, _, _ in single),
        memory=memory_of(rows, "fp32", (tokens for tokens, _, _ in single)),
        load=assumed_load(),
    )


SHORTEST = 64
"""The shortest length of which the source says "about 2-3 ms for seq64/128/256/512" and "28-36 second compile per new shape"."""


def compile_cell(tokens: int, low: float, high: float, n: int, source: str, doubt: str) -> entries.CompileCell:
    return entries.CompileCell(
        tokens=tokens,
        levels=(0.0, 1.0),
        seconds=(low, high),
        n=n,
        origin="published",
        spread_origin="assumed",
        source=source,
        doubt=f"{doubt}; {GPU_UNNAMED}",
        cache="cold",
    )


def migraphx_compile(rows: list[Row], model: str) -> entries.Compile:
    """28 to 36 s per new shape for sequence heads; one published session compile for the token head."""
    if model == "mmbert32k-pii":
        seconds = float(next(r for r in rows if r["source_key"] == MIGRAPHX and r["metric"] == "compile_s")["value"])
        doubt = "one observation, at session creation; it is given no spread"
        return entries.Compile(per_shape=False, cells=(compile_cell(512, seconds, seconds, 1, MIGRAPHX, doubt),))
    low, high = (float(r["value"]) for r in rows if r["source_key"] == COMPILE and r["metric"].startswith("compile_s"))
    doubt = "published as a range for the intent head; uniform within it is assumed"
    cells = tuple(compile_cell(t, low, high, 0, COMPILE, doubt) for t in (SHORTEST, 512))
    return entries.Compile(per_shape=True, cells=cells)


def shortest_cell(rows: list[Row]) -> entries.Cell:
    """Service time at 64 tokens: the lower end of the published range; up to 512 tokens the surface interpolates."""
    low = float(next(r for r in rows if r["source_key"] == COMPILE and r["metric"] == "latency_ms_min")["value"])
    doubt = (
        "only `about 2-3 ms` for 64, 128, 256 and 512 tokens together is published, for the intent head; its lower end is "
        "taken at 64 tokens"
    )
    return about(SHORTEST, low / 1000, "modeled", COMPILE, doubt, GPU_UNNAMED)


def migraphx(model: str, rows: list[Row]) -> entries.Entry:
    """The MIGraphX provider at 512 tokens, warm, fixed shape."""
    mine = [r for r in rows if r["source_key"] == MIGRAPHX and r["model"] == MIGRAPHX_MODELS[model]]
    by_metric = {r["metric"]: float(r["value"]) for r in mine if r["concurrency"] == "1"}
    p50, p95, p99 = (by_metric[f"latency_{p}_ms"] / 1000 for p in ("p50", "p95", "p99"))
    token_model = model == "mmbert32k-pii"
    doubts = [GPU_UNNAMED, f"the file was {mine[0]['artifact']}", "warm, fixed shape"]
    if token_model:
        doubts.append("the same pull request also gives 3.72 ms p50 and 11.84 ms on average for this model")
    short = () if token_model else (shortest_cell(rows),)
    lengths = [*(cell.tokens for cell in short), 512]
    first = about(512, by_metric["first_run_s"], "published", MIGRAPHX, "one observation", GPU_UNNAMED)
    share = (
        "not published; throughput flat from concurrency 2 to 8 on one session shows that a session serialises and "
        f"nothing about the device, so 1.0 is the conservative choice; {GPU_UNNAMED}"
    )
    artifact = "fp32" if token_model else "sdpa_fp16"
    return entry(
        model,
        artifact,
        "migraphx",
        compile=migraphx_compile(rows, model),
        first_run=(first.model_copy(update={"n": 1}),),
        service=entries.Surface(cadence="tight", cells=(*short, through(512, p50, p95, p99, MIGRAPHX, *doubts))),
        occupancy=tuple(occupancy(t, 1.0, "assumed", None, share) for t in lengths),
        memory=memory_of(rows, artifact, lengths),
        load=assumed_load(),
    )
