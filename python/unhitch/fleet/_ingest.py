"""Recordings become rows: in processes on this machine, or on a cluster."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Iterator

from .. import _native
from .._errors import UnhitchError, needs
from .._scan import Paths, paths_of
from ._store import TABLES, Commit, Store, part_of

if TYPE_CHECKING:
    from ._spark import Cluster

__all__ = ["Ingested", "Part", "ingest", "read_part"]

PART_SIZE = 25
"""Recordings in a part: what is lost when a process is killed."""
Report = Callable[["Ingested"], None]


@dataclass
class Ingested:
    """What became of the recordings."""

    total: int = 0
    """Files that were looked at."""
    added: int = 0
    known: int = 0
    """Files that were inside already, or are the same as another one."""
    damaged: list[tuple[str, str]] = field(default_factory=list)
    """Files that could not be read, each with the reason."""
    passed_over: list[str] = field(default_factory=list)
    """Files in the folders whose names are not those of traces."""

    @property
    def done(self) -> int:
        """Files that are settled."""
        return self.added + self.known + len(self.damaged)


@dataclass(frozen=True)
class Part:
    """What became of one part."""

    commit: Commit | None
    damaged: list[tuple[str, str]]


def identify(path: str) -> tuple[str, str | None, str]:
    """A file, its content id, or why it has none."""
    try:
        return path, _native.content_id(path), ""
    except UnhitchError as error:
        return path, None, str(error)


def read_part(folder: str, files: list[tuple[str, str]]) -> Part:
    """Reads recordings (content id, file) and writes their rows; a pure function of the files.

    It does not commit: whoever called it does, once.
    """
    arrow = needs("pyarrow", "fleet")
    rows: dict[str, dict[str, list[object]]] = {table: {} for table in TABLES}
    traces: dict[str, str] = {}
    damaged: list[tuple[str, str]] = []
    for expected, path in files:
        try:
            id, day, tables = _native.fleet_rows(path)
        except UnhitchError as error:
            damaged.append((path, str(error)))
            continue
        if id != expected:
            damaged.append((path, f"{path}: it changed while it was read"))
            continue
        traces[id] = path
        for table, batch in tables:
            rows[table].setdefault(day, []).append(arrow.table(batch))
    if not traces:
        return Part(None, damaged)
    part = part_of(traces)
    joined = {
        table: {day: arrow.concat_tables(batches) for day, batches in by_day.items()}
        for table, by_day in rows.items()
    }
    written = Store(folder).write_rows(part, joined)
    return Part(Commit(part, traces, written), damaged)


def ingest(
    paths: Paths,
    *,
    into: str | os.PathLike[str],
    processes: int | None = None,
    part_size: int = PART_SIZE,
    spark: str | None = None,
    progress: Report | None = None,
) -> Ingested:
    """Adds recordings to a fleet. One that is inside already is left alone.

    It may be killed at any moment and run again: a recording is in or it is not. One that cannot be
    read is named in the result and stops nothing. ``processes`` defaults to the number of CPUs.
    ``spark`` is the URL of a Spark master, which then reads the recordings.
    """
    passed_over: list[str] = []
    files = paths_of(paths, passed_over)
    if not files:
        raise UnhitchError("there are no recordings to add")
    store = Store(into, create=True)
    result = Ingested(total=len(files), passed_over=passed_over)
    report = progress or (lambda _: None)
    with store.locked():
        store.sweep()
        run: Processes | Cluster
        if spark is not None:
            from ._spark import run as run_on_spark

            run = run_on_spark(spark, store.folder, part_size)
        else:
            run = Processes(store.folder, processes or os.cpu_count() or 1)
        with run:
            known, new = store.traces(), {}
            for path, id, why in run.identify(files):
                if id is None:
                    result.damaged.append((path, why))
                elif id in known or id in new:
                    result.known += 1
                else:
                    new[id] = path
            restore(store, new, result)
            wanted = sorted(new.items(), key=lambda item: item[1])
            parts = [wanted[at : at + part_size] for at in range(0, len(wanted), part_size)]
            report(result)
            for part in run.read(parts):
                if part.commit is not None:
                    store.commit(part.commit)
                    result.added += len(part.commit.traces)
                result.damaged += part.damaged
                report(result)
        result.damaged.sort()
        store.write_json("damaged.json", [{"file": file, "why": why} for file, why in result.damaged])
    return result


def restore(store: Store, new: dict[str, str], result: Ingested) -> None:
    """Takes back the deletion of recordings whose rows are still there."""
    inside = {id for commit in store.commits() for id in commit.traces}
    for id in store.deleted() & inside & set(new):
        os.remove(store.path("deleted", id))
        del new[id]
        result.added += 1


class Processes:
    """Worker processes on this machine.

    *Why no threads inside them:* each reads one recording at a time, and all CPUs have one.
    """

    def __init__(self, folder: str, count: int) -> None:
        self.folder = folder
        self.count = count

    def __enter__(self) -> Processes:
        self._threads = os.environ.get("RAYON_NUM_THREADS")
        os.environ["RAYON_NUM_THREADS"] = "1"
        self._pool = self._new_pool()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._threads is None:
            del os.environ["RAYON_NUM_THREADS"]
        else:
            os.environ["RAYON_NUM_THREADS"] = self._threads

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.count, multiprocessing.get_context("spawn"))

    def identify(self, files: list[str]) -> Iterator[tuple[str, str | None, str]]:
        """The content ids of files."""
        yield from self._pool.map(identify, files, chunksize=16)

    def read(self, parts: list[list[tuple[str, str]]]) -> Iterator[Part]:
        """Reads parts, in any order. A file that kills its process is damaged, the others are not."""
        suspects: list[list[tuple[str, str]]] = []
        waiting: dict[Future[Part], list[tuple[str, str]]] = {}
        rest = list(reversed(parts))
        while rest or waiting:
            # No more than the workers can do next: a part in the queue is memory.
            while rest and len(waiting) < 2 * self.count:
                part = rest.pop()
                waiting[self._pool.submit(read_part, self.folder, part)] = part
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            broken = False
            for future in finished:
                part = waiting.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    suspects.append(part)
                    broken = True
            if broken:
                suspects += waiting.values()
                waiting.clear()
                self._pool.shutdown(wait=False)
                self._pool = self._new_pool()
        for file in (file for part in suspects for file in part):
            try:
                yield self._pool.submit(read_part, self.folder, [file]).result()
            except BrokenProcessPool:
                self._pool = self._new_pool()
                yield Part(None, [(file[1], f"{file[1]}: the process that read it was killed")])


class Progress:
    """A line on a terminal: how far it is."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._shown = False

    def __call__(self, result: Ingested) -> None:
        if not sys.stderr.isatty():
            return
        passed = time.monotonic() - self._begin
        rate = result.done / passed if passed > 0 else 0.0
        filled = 30 * result.done // max(result.total, 1)
        bar = "#" * filled + "." * (30 - filled)
        line = f"[{bar}] {result.done:,} of {result.total:,}, {rate:.0f}/s, {len(result.damaged)} damaged"
        print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        self._shown = True

    def end(self) -> None:
        """Leaves the line."""
        if self._shown:
            print(file=sys.stderr)
