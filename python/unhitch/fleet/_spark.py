"""The same on a Spark cluster that the user already has: tasks read recordings and write parts.

A task gets the paths of a part and runs the function that worker processes run on one machine
(`_ingest.read_part`), so a part that is computed twice, because its executor died, is the same part
under the same name. Only the driver commits. Recordings and the fleet's folder are on storage that
all nodes see; this package is installed on each (docs/spark.md).
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Iterator

from .._errors import UnhitchError, needs
from ._ingest import Part, identify, read_part
from ._queries import QUERIES
from ._store import DISTINCT, Commit, Store, view_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

__all__ = ["Cluster", "answers", "run", "session", "views"]

PARTS_PER_CORE = 4
"""Parts of a job for each core. After each job its parts are committed: that much is lost when the
driver is killed."""


def session(master: str) -> SparkSession:
    """A session on the cluster."""
    sql = needs("pyspark.sql", "spark")
    # The driver's Python must be that of the executors, unless the user says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master(master).appName("unhitch fleet")
    settings = {
        # The Java library for Snappy, the default, fails where a musl loader is installed.
        "spark.sql.parquet.compression.codec": "zstd",
        # A day is a text, as on DuckDB.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        # Reading a recording takes all of one core.
        "spark.executorEnv.RAYON_NUM_THREADS": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except Exception as error:  # Py4J's errors have no class of their own to catch.
        raise UnhitchError(f"{master}: {str(error).splitlines()[0]}") from error
    made.sparkContext.setLogLevel("ERROR")
    # The default of 200 is for tables that are much larger than a fleet's.
    cores = max(made.sparkContext.defaultParallelism, 1)
    made.conf.set("spark.sql.shuffle.partitions", str(max(8, 2 * cores)))
    return made


def identify_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """For Spark: paths become content ids."""
    arrow = needs("pyarrow", "spark")
    for batch in batches:
        found = [identify(path) for path in batch.column(0).to_pylist()]
        columns = {"path": [], "id": [], "why": []}  # type: dict[str, list[Any]]
        for path, id, why in found:
            columns["path"].append(path)
            columns["id"].append(id)
            columns["why"].append(why)
        yield arrow.RecordBatch.from_pydict(
            columns, schema=arrow.schema([(name, "string") for name in columns])
        )


def read_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """For Spark: the paths of a part become what is to be committed."""
    arrow = needs("pyarrow", "spark")
    for batch in batches:
        results = []
        for text in batch.column(0).to_pylist():
            job = json.loads(text)
            part = read_part(job["folder"], [tuple(file) for file in job["files"]])
            commit = part.commit
            results.append(
                json.dumps(
                    {
                        "damaged": part.damaged,
                        "commit": commit
                        and {"part": commit.part, "traces": commit.traces, "files": commit.files},
                    }
                )
            )
        yield arrow.RecordBatch.from_pydict({"result": results})


class Cluster:
    """Tasks on a cluster, as `_ingest.Processes` are processes on one machine."""

    def __init__(self, master: str, folder: str, part_size: int) -> None:
        self.master = master
        self.folder = folder
        self.part_size = part_size

    def __enter__(self) -> Cluster:
        self._session = session(self.master)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.stop()

    def _map(self, function: Any, inputs: list[str], schema: str) -> list[Any]:
        """One input per task: `repartition` would not promise that."""
        context = self._session.sparkContext
        rows = context.parallelize([(text,) for text in inputs], len(inputs))
        frame = self._session.createDataFrame(rows, "input string")
        return frame.mapInArrow(function, schema).collect()

    def identify(self, files: list[str]) -> Iterator[tuple[str, str | None, str]]:
        """The content ids of files."""
        cores = max(self._session.sparkContext.defaultParallelism, 1)
        context = self._session.sparkContext
        rows = context.parallelize([(file,) for file in files], min(len(files), PARTS_PER_CORE * cores))
        frame = self._session.createDataFrame(rows, "input string")
        schema = "path string, id string, why string"
        for row in frame.mapInArrow(identify_batches, schema).collect():
            yield row["path"], row["id"], row["why"]

    def read(self, parts: list[list[tuple[str, str]]]) -> Iterator[Part]:
        """Reads parts, some for each core at a time."""
        cores = max(self._session.sparkContext.defaultParallelism, 1)
        size = PARTS_PER_CORE * cores
        for at in range(0, len(parts), size):
            jobs = [json.dumps({"folder": self.folder, "files": part}) for part in parts[at : at + size]]
            for row in self._map(read_batches, jobs, "result string"):
                result = json.loads(row["result"])
                commit = result["commit"] and Commit(**result["commit"])
                yield Part(commit or None, [(file, why) for file, why in result["damaged"]])


def run(master: str, folder: str, part_size: int) -> Cluster:
    """What `ingest` uses in place of processes."""
    return Cluster(master, folder, part_size)


def views(spark: SparkSession, folder: str | os.PathLike[str]) -> None:
    """Makes the tables of a fleet known to a session, as `connect` does for DuckDB."""
    store = Store(folder)
    deleted = [(id,) for id in sorted(store.deleted())]
    spark.createDataFrame(deleted, "trace_id string").createOrReplaceTempView("deleted_traces")
    for table, files in store.files().items():
        if not files:
            raise UnhitchError(f"{store.folder}: holds no recordings yet")
        frame = spark.read.option("basePath", store.path("tables", table)).parquet(*files)
        frame.createOrReplaceTempView(f"{table}_rows")
        rows = (
            f"select * from {table}_rows "
            "where trace_id not in (select trace_id from deleted_traces)"
        )
        view = spark.sql(view_of(table, rows))
        if table in DISTINCT:
            view = view.drop("nth")
        view.createOrReplaceTempView(table)


def answers(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    """The answer to one of `QUERIES`, by Spark."""
    from ._report import plain

    rows = spark.sql(QUERIES[name])
    return [dict(zip(rows.columns, plain(tuple(row)))) for row in rows.collect()]
