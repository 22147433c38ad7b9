"""Measures the package: ``tools/python bench [WAITS] [TRACES …]``. Prints each figure of the docs.

The recordings are synthetic: one of 10 million waits, and a fleet of files of about 1 MB.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, TypeVar

import unhitch

T = TypeVar("T")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "starve.hitch"


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def timed(words: str, run: Callable[[], T], rounds: int = 1) -> T:
    """Prints the median of the wall times of ``run``."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - begin)
    print(f"{words:58} {statistics.median(times):9.3f} s", flush=True)
    return result


def one_large(synthetic: str, folder: Path, count: int) -> None:
    subprocess.run([synthetic, folder, "--waits", str(count)], check=True)
    path = folder / "waits.perf.data"
    size = path.stat().st_size / 2**20
    trace = timed(f"open {count:,} waits ({size:,.0f} MiB)", lambda: unhitch.open(path, names=False))
    shown = "blocked at,thread,tid,process,waited,reason"
    waits = timed("compute six columns", lambda: trace.table("waits", show=shown))
    print(f"{'rows':58} {len(waits):9,}   {waits.nbytes / 2**20:,.0f} MiB")
    timed("hand over to polars", waits.to_polars, 5)
    arrow = timed("hand over to pyarrow", waits.to_arrow, 5)
    again = waits.to_arrow()
    address = arrow.column("waited_ns").chunk(0).buffers()[1].address
    assert again.column("waited_ns").chunk(0).buffers()[1].address == address
    assert waits.to_polars()["waited_ns"].to_arrow().buffers()[1].address == address
    print("pyarrow and polars read the same address")
    import duckdb

    connection = duckdb.connect()

    def grouped() -> object:
        connection.register("waits", waits)
        query = "select reason, thread, count(*), sum(waited_ns) from waits group by all"
        return connection.sql(query).fetchall()

    timed("DuckDB groups by reason and thread", grouped, 5)


def leak() -> None:
    def once() -> None:
        trace = unhitch.open(EXAMPLE)
        trace.waits.to_arrow()
        trace.stacks.to_arrow()

    for _ in range(100):
        once()
    before = resident_mib()
    timed("open the example 1,000 times, with waits and stacks", lambda: [once() for _ in range(1000)])
    print(f"{'growth of resident memory meanwhile':58} {resident_mib() - before:9.1f} MiB")


def measured(*words: str | Path) -> tuple[float, float]:
    """Seconds and MiB (the largest of its processes) of ``unhitch fleet``."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "unhitch", "fleet", *map(str, words)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(run.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed")
    return time.perf_counter() - begin, used.ru_maxrss / 1024


def a_fleet(synthetic: str, folder: Path, counts: list[int]) -> None:
    command = [synthetic, folder, "--traces", str(max(counts)), "--filler", "720"]
    subprocess.run(command, check=True)
    files = sorted(folder.glob("*.hitch"))
    size = sum(file.stat().st_size for file in files) / len(files) / 1e6
    print(f"recordings of {size:.2f} MB; seconds, and MiB of the largest process")
    print(f"{'recordings':>12}{'ingest':>16}{'report':>16}{'compact':>16}{'tables, MB':>12}")
    for count in counts:
        some, store = folder / f"first-{count}", folder / f"store-{count}"
        some.mkdir()
        for file in files[:count]:
            os.link(file, some / file.name)
        rows = [measured("ingest", some, "--into", store)]
        rows += [measured(words, store) for words in ("report", "compact")]
        tables = sum(file.stat().st_size for file in store.rglob("*.parquet")) / 1e6
        cells = "".join(f"{seconds:10.2f}{mib:6.0f}" for seconds, mib in rows)
        print(f"{count:>12,}{cells}{tables:12.1f}", flush=True)


def main(waits: int = 10_000_000, *traces: int) -> None:
    synthetic = os.environ["UNHITCH_SYNTHETIC"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        leak()
        a_fleet(synthetic, folder / "fleet", sorted(traces or (100, 400, 2000)))
        one_large(synthetic, folder / "large", waits)
    print(json.dumps({"cpus": os.cpu_count(), "python": sys.version.split()[0]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
