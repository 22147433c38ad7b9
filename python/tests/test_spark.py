"""A standalone Spark master and two workers on loopback: the same tables and the same report."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import pytest

from unhitch import fleet

# `make test-fleet` is there to run these: what is missing is an error then.
if "UNHITCH_SPARK_TRACES" not in os.environ:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java", allow_module_level=True)
import pyspark  # noqa: E402

TRACES = int(os.environ.get("UNHITCH_SPARK_TRACES", "120"))
PART_SIZE = 3


class Standalone:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Path(pyspark.__file__).parent
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self._wait_for_port()
        for name in ("worker-0", "worker-1"):
            self.start_worker(name)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "512m",
        }
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def start_worker(self, name: str) -> None:
        work = self.folder / name
        self._start(
            name, "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1500m",
            "--webui-port", "0", "--work-dir", str(work), self.master,
        )  # fmt: skip

    def _wait_for_port(self) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise AssertionError((self.folder / "master.log").read_text())

    def kill(self, name: str) -> None:
        """A worker and everything that it started, its executor and Python among them, with -9."""
        process = self.processes.pop(name)
        victims = [process.pid]
        for pid in victims:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    victims += map(int, task.read_text().split())
                except OSError:
                    pass
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()

    def stop(self) -> None:
        for name in reversed(list(self.processes)):
            self.kill(name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    standalone = Standalone(tmp_path_factory.mktemp("spark"))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    yield standalone
    standalone.stop()


@pytest.fixture(scope="module")
def recordings(synthetic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    subprocess.run([synthetic, folder, "--traces", str(TRACES), "--filler", "20"], check=True)
    (folder / "damaged.hitch").write_text("no trace")
    return folder


@pytest.fixture(scope="module")
def on_one_machine(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local") / "store"
    fleet.ingest(recordings, into=folder)
    return folder


def parts(folder: Path) -> int:
    """How many parts have been written, committed or not."""
    return len(list(folder.glob("tables/traces/*/*.parquet")))


def test_undisturbed(cluster: Standalone, recordings: Path, on_one_machine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    result = fleet.ingest(recordings, into=folder, spark=cluster.master, part_size=PART_SIZE)
    assert (result.added, len(result.damaged)) == (TRACES, 1)
    assert fleet.fingerprint(folder) == fleet.fingerprint(on_one_machine)
    again = fleet.ingest(recordings, into=folder, spark=cluster.master)
    assert (again.added, again.known) == (0, TRACES)


def test_duckdb_and_spark_agree_on_every_query(cluster: Standalone, on_one_machine: Path) -> None:
    from unhitch.fleet import _queries, _report, _spark

    connection = fleet.connect(on_one_machine)
    session = fleet.spark_session(cluster.master)
    try:
        fleet.spark_views(session, on_one_machine)
        for name, query in _queries.QUERIES.items():
            answer = connection.sql(query)
            names = list(answer.columns)
            rows = [dict(zip(names, _report.plain(row))) for row in answer.fetchall()]
            # Without a difference between builds or runs there could be no rows at all.
            assert rows, name
            assert _spark.answers(session, name) == rows, name
    finally:
        session.stop()


def test_the_report_is_the_same(cluster: Standalone, on_one_machine: Path) -> None:
    on_spark = fleet.report(on_one_machine, since="2026-09-16", spark=cluster.master)
    assert on_spark.data == fleet.report(on_one_machine, since="2026-09-16").data


def test_a_worker_and_its_executor_are_killed(
    cluster: Standalone, recordings: Path, on_one_machine: Path, tmp_path: Path
) -> None:
    folder, killed_at = tmp_path / "store", []

    def kill() -> None:
        while parts(folder) < 4:
            time.sleep(0.01)
        cluster.kill("worker-1")
        killed_at.append(parts(folder))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    result = fleet.ingest(recordings, into=folder, spark=cluster.master, part_size=PART_SIZE)
    killer.join(60)
    assert killed_at and killed_at[0] < TRACES // PART_SIZE, "it was killed in the middle"
    assert result.added == TRACES
    assert fleet.fingerprint(folder) == fleet.fingerprint(on_one_machine)
    assert fleet.report(folder).data == fleet.report(on_one_machine).data
    cluster.start_worker("worker-1")


def test_the_driver_is_killed_and_run_again(
    cluster: Standalone, recordings: Path, on_one_machine: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    command = [sys.executable, "-m", "unhitch", "fleet", "ingest", str(recordings)]
    command += ["--into", str(folder), "--spark", cluster.master, "--part-size", str(PART_SIZE)]
    run = subprocess.Popen(command, start_new_session=True)
    while run.poll() is None and parts(folder) < 4:
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "it had ended before it was killed"
    subprocess.run(command, check=True)
    assert fleet.fingerprint(folder) == fleet.fingerprint(on_one_machine)
    assert fleet.report(folder).data == fleet.report(on_one_machine).data
