"""The tables of a fleet on disk, and what makes a change of them all or nothing.

::

    DIR/tables/TABLE/day=2026-09-01/PART.parquet    rows of some recordings
    DIR/commits/PART.json                           which recordings these are, and their files
    DIR/deleted/TRACE_ID                            recordings that the next compaction leaves out

A part is written file by file; it counts from the moment its commit is renamed into place. Whatever
has no commit does not exist for a reader, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from .._errors import UnhitchError, needs

if TYPE_CHECKING:
    import duckdb
    import pyarrow

__all__ = ["TABLES", "Commit", "Store", "compact", "connect", "delete", "fingerprint"]

VERSION = 1
TABLES = (
    "traces",
    "programs",
    "stalls",
    "causes",
    "edges",
    "wait_patterns",
    "stacks",
    "frames",
)
"""The tables; docs/fleet.md has their columns."""
DISTINCT = {"stacks": "stack_id", "frames": "frame_id"}
"""Tables that many recordings repeat, with their id: a reader sees each row once."""


@dataclass(frozen=True)
class Commit:
    """A part that counts."""

    part: str
    traces: dict[str, str]
    """Content id to file."""
    files: dict[str, list[str]]
    """Table to files, relative to the store."""
    replaces: list[str] = field(default_factory=list)


class Store:
    """The folder of a fleet."""

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False) -> None:
        self.folder = os.path.abspath(os.fspath(folder))
        about = os.path.join(self.folder, "fleet.json")
        if create and not os.path.exists(about):
            if os.path.isdir(self.folder) and os.listdir(self.folder):
                raise UnhitchError(f"{self.folder}: holds something else than a fleet")
            os.makedirs(self.folder, exist_ok=True)
            self.write_json("fleet.json", {"version": VERSION})
        try:
            with open(about, encoding="utf-8") as file:
                version = json.load(file)["version"]
        except (OSError, ValueError, KeyError) as error:
            raise UnhitchError(f"{self.folder}: is no fleet (`unhitch fleet ingest`)") from error
        if version != VERSION:
            raise UnhitchError(f"{self.folder}: has version {version}, this is version {VERSION}")

    def path(self, *names: str) -> str:
        """A path inside."""
        return os.path.join(self.folder, *names)

    def write_json(self, name: str, content: Any) -> None:
        """Writes a file that is complete or absent."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=os.path.dirname(path), prefix=".", suffix=".tmp", delete=False
        ) as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)

    def commits(self) -> list[Commit]:
        """The parts that count, in the order of their names."""
        found: dict[str, Commit] = {}
        folder = self.path("commits")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(".json") and not name.startswith("."):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    commit = Commit(**json.load(file))
                found[commit.part] = commit
        replaced = {part for commit in found.values() for part in commit.replaces}
        return [commit for part, commit in found.items() if part not in replaced]

    def deleted(self) -> set[str]:
        """The recordings that were taken out."""
        folder = self.path("deleted")
        return set(os.listdir(folder)) if os.path.isdir(folder) else set()

    def traces(self) -> dict[str, str]:
        """The recordings inside: content id to file."""
        deleted = self.deleted()
        all = {id: file for commit in self.commits() for id, file in commit.traces.items()}
        return {id: file for id, file in all.items() if id not in deleted}

    def files(self) -> dict[str, list[str]]:
        """The files of each table."""
        found: dict[str, list[str]] = {table: [] for table in TABLES}
        for commit in self.commits():
            for table, files in commit.files.items():
                found[table] += [self.path(file) for file in files]
        return found

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other writers out."""
        with open(self.path("lock"), "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UnhitchError(f"{self.folder}: somebody else is writing to it") from error
            yield

    def sweep(self) -> None:
        """Removes what no commit names: the rest of a writer that was killed, or of a compaction."""
        commits = self.commits()
        known = {file for commit in commits for files in commit.files.values() for file in files}
        for folder, _, names in os.walk(self.path("tables")):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.folder) not in known:
                    os.remove(path)
        parts = {f"{commit.part}.json" for commit in commits}
        folder = self.path("commits")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name not in parts:
                os.remove(os.path.join(folder, name))
        inside = {id for commit in commits for id in commit.traces}
        for id in self.deleted() - inside:
            os.remove(self.path("deleted", id))

    def write_rows(self, part: str, rows: dict[str, dict[str, pyarrow.Table]]) -> dict[str, list[str]]:
        """Writes the rows of a part, by table and day. The same rows give the same files."""
        parquet = needs("pyarrow.parquet", "fleet")
        files: dict[str, list[str]] = {table: [] for table in TABLES}
        for table, by_day in rows.items():
            for day, batch in sorted(by_day.items()):
                name = os.path.join("tables", table, f"day={day}", f"{part}.parquet")
                path = self.path(name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                # Two tasks of a cluster may write one part at once.
                made = f"{path}.{os.getpid()}.tmp"
                parquet.write_table(batch, made, compression="zstd")
                os.replace(made, path)
                files[table].append(name)
        return files

    def commit(self, commit: Commit) -> None:
        """Makes a part count."""
        self.write_json(
            os.path.join("commits", f"{commit.part}.json"),
            {
                "part": commit.part,
                "traces": commit.traces,
                "files": commit.files,
                "replaces": commit.replaces,
            },
        )


def part_of(traces: Iterable[str]) -> str:
    """The name of the part that holds these recordings."""
    return hashlib.sha256(" ".join(sorted(traces)).encode()).hexdigest()[:16]


def connect(folder: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the tables of a fleet as views, `TABLES` and ``files``."""
    store = Store(folder)
    connection = needs("duckdb", "fleet").connect()
    arrow = needs("pyarrow", "fleet")
    traces = store.traces()
    names = arrow.table({"trace_id": list(traces), "file": list(traces.values())})
    connection.register("files", names.cast(arrow.schema([("trace_id", "string"), ("file", "string")])))
    deleted = arrow.table({"trace_id": arrow.array(sorted(store.deleted()), "string")})
    connection.register("deleted_traces", deleted)
    for table, files in store.files().items():
        if not files:
            raise UnhitchError(f"{store.folder}: holds no recordings yet")
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        rows = (
            f"select * from read_parquet([{listed}], hive_partitioning = true, "
            "hive_types_autocast = false) "
            "where trace_id not in (select trace_id from deleted_traces)"
        )
        connection.execute(f"create view {table} as {view_of(table, rows)}")
    return connection


def view_of(table: str, rows: str) -> str:
    """What a reader sees of a table: of what recordings repeat, each row once."""
    if table not in DISTINCT:
        return rows
    id = DISTINCT[table]
    # The column `nth` is left over; DuckDB and Spark write "all but" differently.
    return (
        f"select * from (select *, row_number() over (partition by {id} order by trace_id) as nth "
        f"from ({rows}) as repeated) as numbered where nth = 1"
    )


def fingerprint(folder: str | os.PathLike[str]) -> dict[str, str]:
    """A hash of the rows of each table, whatever their order and files: equal fleets are equal."""
    store = Store(folder)
    parquet = needs("pyarrow.parquet", "fleet")
    deleted = store.deleted()
    prints = {}
    for table, files in store.files().items():
        rows = []
        for file in files:
            day = os.path.basename(os.path.dirname(file))
            for row in parquet.ParquetFile(file).read().to_pylist():
                if row["trace_id"] not in deleted:
                    rows.append(json.dumps([day, row], sort_keys=True))
        prints[table] = f"{len(rows)} {hashlib.sha256(chr(10).join(sorted(rows)).encode()).hexdigest()}"
    return prints


def delete(folder: str | os.PathLike[str], traces: Iterable[str]) -> list[str]:
    """Takes recordings out, by content id or file. `compact` then frees their space."""
    store = Store(folder)
    with store.locked():
        known = store.traces()
        ids = []
        for trace in traces:
            path = os.path.abspath(trace)
            found = [id for id, file in known.items() if trace == id or file in (trace, path)]
            if not found:
                raise UnhitchError(f"{trace}: is not in this fleet")
            ids += found
        os.makedirs(store.path("deleted"), exist_ok=True)
        for id in ids:
            with open(store.path("deleted", id), "w", encoding="utf-8"):
                pass
    return ids


def compact(folder: str | os.PathLike[str]) -> None:
    """Rewrites each day as one file, without the recordings that were deleted."""
    parquet, arrow = needs("pyarrow.parquet", "fleet"), needs("pyarrow", "fleet")
    store = Store(folder)
    with store.locked():
        store.sweep()
        commits, deleted, traces = store.commits(), store.deleted(), store.traces()
        if not commits:
            return
        part = part_of([*traces, "compacted", *(commit.part for commit in commits)])
        files: dict[str, list[str]] = {table: [] for table in TABLES}
        for table, old in store.files().items():
            by_day: dict[str, list[str]] = {}
            for file in old:
                by_day.setdefault(os.path.basename(os.path.dirname(file))[len("day=") :], []).append(file)
            for day, parts in by_day.items():
                batches = [parquet.ParquetFile(file).read() for file in parts]
                rows = arrow.concat_tables(batches)
                keep = [id not in deleted for id in rows.column("trace_id").to_pylist()]
                rows = rows.filter(arrow.array(keep, "bool")).sort_by("trace_id")
                if rows.num_rows:
                    files[table] += store.write_rows(part, {table: {day: rows}})[table]
        store.commit(Commit(part, traces, files, [commit.part for commit in commits]))
        # Only now may the replaced parts go; a reader that began before keeps its open files.
        store.sweep()
        newest = next(commit for commit in store.commits() if commit.part == part)
        store.commit(Commit(newest.part, newest.traces, newest.files))
