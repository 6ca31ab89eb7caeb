"""How fast the engines are, against what, all in one run: `python benchmarks/run.py [--quick] [--out DIRECTORY]`.

Enters: nothing. Leaves: ratios on stdout, and with --out `benchmarks.json` and a plot for each table. Every figure is a
ratio of things timed in turns in this run; the one reference is SimPy with a process for each request
(`process_per_request.py`), whose answers are first compared with the engines' to 1e-9 s. Exit status 1 where a promise of
the engines page does not hold: SimPy engine at least 6 times, compiled at least 100 times the reference, and cost a
request growing more slowly than size^0.2 from 1 to 64 GPUs (logarithmic growth is below that).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import plots, process_per_request, sweeps
from benchmarks.against_fleet_sim import against_fleet_sim
from benchmarks.cases import Case, fork_join, mm4
from benchmarks.timing import growth_of, in_turns
from sim import compiled
from sim.arrivals import OpenLoop
from sim.engine import Asked, simulate
from sim.metrics import figures
from sim.records import Records
from sim.streams import Streams

LEAST = {"simpy": 6.0, "compiled": 100.0}
MOST_EXPONENT = 0.2
SIZES = [1, 2, 4, 8, 16, 32, 64]
SIGNALS = [1, 2, 4, 8, 16]


def engine(case: Case, name: Asked) -> Records:
    node, work, times = case
    return simulate(node, work, OpenLoop(times), Streams(1, 0), engine=name)


def with_figures(case: Case, name: Asked) -> Callable[[], object]:
    """The run and all its figures."""
    return lambda: figures(engine(case, name), ("a",), 0.1, 0.99, bursts=False)


def against_processes(n: int, rounds: int) -> dict[str, float]:
    """Three-way fork-join with lock domains and occupancy sharing: times faster than a process for each request."""
    case = fork_join(n)
    reference = process_per_request.simulate(*case)
    for name in ("simpy", "compiled"):
        np.testing.assert_allclose(engine(case, name).answered, reference, rtol=0, atol=1e-9)
    took = in_turns(
        {
            "reference": lambda: process_per_request.simulate(*case),
            "simpy": with_figures(case, "simpy"),
            "compiled": with_figures(case, "compiled"),
            "compiled loop alone": lambda: engine(case, "compiled"),
        },
        rounds,
    )
    return {name: took["reference"] / seconds for name, seconds in took.items() if name != "reference"}


def against_ciw(n: int, rounds: int) -> dict[str, float]:
    """M/M/4: times faster than Ciw with as many customers."""
    import ciw

    case = mm4(n)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(3.2)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[4],
    )

    def run_ciw() -> None:
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_customers(n)

    took = in_turns(
        {"ciw": run_ciw, "simpy": with_figures(case, "simpy"), "compiled": with_figures(case, "compiled")}, rounds
    )
    return {name: took["ciw"] / seconds for name, seconds in took.items() if name != "ciw"}


def growth(what: str, sizes: list[int], make: Callable[[int], Case], rounds: int) -> list[dict[str, Any]]:
    """Cost a request at each size relative to the smallest, for both engines, and the exponent of its growth."""
    rows = []
    for name in ("simpy", "compiled"):
        took = in_turns({str(size): with_figures(make(size), name) for size in sizes}, rounds)
        seconds = [took[str(size)] for size in sizes]
        fit = growth_of(sizes, seconds)
        ends = {"exponent": fit.exponent, "exponent_lo": fit.lo, "exponent_hi": fit.hi}
        rows += [
            {"what": what, "engine": name, "size": size, "relative": one / seconds[0], "said": str(fit)} | ends
            for size, one in zip(sizes, seconds, strict=True)
        ]
    return rows


def broken(speed: dict[str, float], grown: list[dict[str, Any]]) -> list[str]:
    """The promises that this run did not keep."""
    said = [
        f"{name}: {speed[name]:.1f} times, promised {least:g}" for name, least in LEAST.items() if speed[name] < least
    ]
    slopes = {(row["what"], row["engine"]): row["exponent"] for row in grown if row["what"] == "GPUs"}
    said += [f"{what}, {name}: exponent {b:.2f}" for (what, name), b in slopes.items() if b > MOST_EXPONENT]
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests: rough, and not judged")
    parser.add_argument("--out", type=Path, help="directory for benchmarks.json and the plots")
    asked = parser.parse_args()
    n, rounds = (2_000, 2) if asked.quick else (20_000, 5)
    compiled.load()

    speed = against_processes(n, rounds)
    print("times faster than SimPy with a process a request (fork-join of 3, locks, shared device, all figures):")
    _say(speed)
    ciw = against_ciw(n, rounds)
    print("times faster than Ciw (M/M/4):")
    _say(ciw)
    fleet = against_fleet_sim(n, rounds)
    if fleet:
        print("times faster than fleet-sim (requests a second, each on a fleet of so many GPUs):")
        _say(fleet)
    else:
        print("fleet-sim: not importable here (set SEMANTIC_ROUTER to a checkout of the router project)")
    grown = growth("GPUs", SIZES, lambda k: fork_join(n, gpus=k), rounds)
    grown += growth("replicas", SIZES, lambda k: fork_join(n, replicas=k, balancer="join_shortest_queue"), rounds)
    grown += growth("signals", SIGNALS, lambda k: fork_join(n, signals=k), rounds)
    print("cost a request relative to size 1:")
    for key in dict.fromkeys((row["what"], row["engine"]) for row in grown):
        rows = [row for row in grown if (row["what"], row["engine"]) == key]
        line = ", ".join(f"{row['size']}: {row['relative']:.2f}" for row in rows)
        print(f"  {key[0]:<9}{key[1]:<9} {line}  ({rows[0]['said']})")
    swept = sweeps.measure(quick=asked.quick)
    print("sweeps:")
    for row in swept:
        print(f"  {row['what']:<34} {row['size']:>9}  {row['value']:.2f} {row['unit']}")
    for what, fit in sweeps.exponents(swept).items():
        print(f"  {what:<34} {fit}")
    missed = [] if asked.quick else broken(speed, grown)  # so few requests do not make up for the start of a run
    result = {"speed": speed, "ciw": ciw, "fleet_sim": fleet, "growth": grown, "sweeps": swept, "missed": missed}
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "benchmarks.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        plots.save_all(result, asked.out)
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def _say(ratios: dict[str, float]) -> None:
    for name, ratio in ratios.items():
        print(f"  {name:<22} {ratio:8.1f}")


if __name__ == "__main__":
    sys.exit(main())
