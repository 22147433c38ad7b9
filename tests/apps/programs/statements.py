"""Statements of databases that keep others waiting, and a server of names that reads its own files."""

import contextlib
import itertools
import signal
import socket
import struct
import time

import programs.mariadb as mariadb
import programs.postgres as postgres
from hang import Who, hang
from programs.servers import SLEEPS
from stage import connects, free_port, until


def statement(port, prepare, text):
    """A client of PostgreSQL with one long statement."""
    connection = postgres.connect(port)
    for each in prepare:
        connection.run(each)
    return lambda: connection.run(text) and None, postgres.backend_of(connection)


def behind_statement(stage, prepare, text, short):
    """Whoever repeats the short statement waits for the long one, whose backend is to blame."""
    port = postgres.server(
        *(stage, "-c", "max_parallel_maintenance_workers=0", "-c", "max_parallel_workers_per_gather=0"),
        *("-c", "autovacuum=off", "-c", "checkpoint_timeout=1h", "-c", "max_wal_size=4GB"),
        *("-c", "maintenance_work_mem=256MB", "-c", "fsync=off"),
    )
    other = stage.deed(statement, port=port, prepare=prepare, text=text)
    client = stage.rhythm(postgres.ask, port=port, statement=short)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(
        culprits=[Who(other.facts["backend"])], others=[Who(client.facts["backend"])]
    )


BUILDS = r"tuplesort|qsort|comparetup|_bt_|btbuild|IndexBuild|heapam_index_build|ExecInterpExpr|md5|text_?(lt|cmp)|str_?coll"


@hang("PostgreSQL", [BUILDS, *postgres.LOCKS, postgres.COMPUTES_MD5], lock=True, needs=postgres.NEEDS)
def postgres_create_index(stage):
    """CREATE INDEX (without CONCURRENTLY) keeps whoever writes waiting."""
    rows = 500_000 * stage.attempt
    table = ["create table orders (t text)", f"insert into orders select md5(n::text) from generate_series(1, {rows}) n"]
    return behind_statement(
        *(stage, table, "create index on orders (md5(md5(t)))"),
        "insert into orders values ('order')",
    )


REFRESHES = r"md5|ExecInterpExpr|ExecScan|ExecProject|transientrel|heap_(multi_)?insert|generate_series|refresh"


@hang("PostgreSQL", [REFRESHES, *postgres.LOCKS, postgres.COMPUTES_MD5], lock=True, needs=postgres.NEEDS)
def postgres_refresh_view(stage):
    """REFRESH MATERIALIZED VIEW keeps whoever reads it waiting."""
    rows = 700_000 * stage.attempt
    # The view grows with its settings.
    view = [
        "create table settings (rows int)",
        "insert into settings values (10)",
        "create materialized view totals as select n, md5(md5(md5(n::text)))"
        " from settings, generate_series(1, settings.rows) n",
        f"update settings set rows = {rows}",
    ]
    return behind_statement(
        *(stage, view, "refresh materialized view totals"), "select n from totals limit 1"
    )


def signing_up(port):
    """A client that inserts a name, which is unique, and changes its mind."""
    connection = postgres.connect(port)

    def sign_up():
        connection.run("begin")
        connection.run("insert into accounts values (5000, 0) on conflict do nothing")
        connection.run("rollback")

    return sign_up, postgres.backend_of(connection)


UNIQUE = r"SpeculativeInsertion|_bt_(doinsert|check_unique)|check_exclusion|ExecInsert|\bthink\b"


@hang("PostgreSQL", [*postgres.LOCKS, rf"{UNIQUE}|{SLEEPS}"], lock=True, needs=postgres.NEEDS)
def postgres_unique_key(stage):
    """A transaction that thinks has inserted a key, and who inserts the same waits how that ends."""
    port = postgres.server(stage)
    client = stage.rhythm(signing_up, port=port)
    insert = ["begin", "insert into accounts values (5000, 0)"]
    holder = stage.deed(postgres.hold, port=port, statements=insert, last="rollback")
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=[holder.who, Who(holder.facts["backend"])], others=[Who(client.facts["backend"])]
    )


def orders_table(path):
    """Makes a table with an AUTO_INCREMENT column; how fast the server computes."""
    connection = mariadb.connect(path)
    mariadb.run(connection, "create table orders (id int auto_increment primary key, hash int) engine=InnoDB")
    began = time.monotonic()
    mariadb.run(connection, "select benchmark(200000, sha1('order'))")
    speed = 200_000 / (time.monotonic() - began)
    return lambda: None, {"speed": speed}


def inserts(path, text):
    """A client that inserts something."""
    connection = mariadb.connect(path)

    def insert_order():
        mariadb.run(connection, text)

    return insert_order, mariadb.thread_of_connection(connection)


AUTO = r"Item_func_(benchmark|sha)|(?i:my_sha1|sha1_)|select_insert|evaluate|sub_select"


@hang("MariaDB", [AUTO, *mariadb.WAITS], lock=True, needs=mariadb.NEEDS)
def mariadb_auto_increment(stage):
    """INSERT ... SELECT computes, and has the lock of the table's AUTO_INCREMENT as long."""
    pid, path = mariadb.server(stage)
    table = stage.deed(orders_table, path=path)
    client = stage.rhythm(inserts, path=path, text="insert into orders (hash) values (1)")
    rounds = int(1.3 * table.facts["speed"] / 20)
    hashes = f"benchmark({rounds}, sha1(concat('order', seq)))"
    many = f"insert into orders (hash) select {hashes} from seq_1_to_20"
    other = stage.deed(inserts, path=path, text=many)
    with stage.recording(after=2):
        other.go()
        other.result()
    computing = Who(pid, other.facts["thread"])
    return client.truth(culprits=[computing], others=[Who(pid, client.facts["thread"])])


UNBOUND = """
server:
  interface: 127.0.0.1
  port: {port}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: "{folder}/unbound.pid"
  use-syslog: no
  logfile: "{folder}/unbound.out"
  num-threads: 1
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  local-data: "www.example.com. 60 IN A 192.0.2.1"
  include: "{folder}/blocked.conf"
remote-control:
  control-enable: no
"""


def patient_lookups(port):
    """A program that looks a name up, and asks again if nothing has come."""
    name = b"\3www\7example\3com\0" + struct.pack("!2H", 1, 1)
    numbers = itertools.cycle(range(1, 60000))

    def resolve():
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(0.1)
                sock.connect(("127.0.0.1", port))
                with contextlib.suppress(OSError):
                    sock.send(struct.pack("!6H", next(numbers), 0x100, 1, 0, 0, 0) + name)
                    sock.recv(512)
                    return
            time.sleep(0.01)

    return resolve


@hang("Unbound", [], needs=["unbound"])
def unbound_reload(stage):
    """A name server reads its long list of blocked names again, and answers nobody meanwhile."""
    port, file = free_port(), stage.folder / "unbound.conf"
    file.write_text(UNBOUND.format(port=port, folder=stage.folder))
    with open(stage.folder / "blocked.conf", "w") as out:
        for n in range(500_000 * stage.attempt):
            print(f'local-zone: "ads{n}.example.net" always_nxdomain', file=out)
    server = stage.start("unbound", "-d", "-c", file)
    until("Unbound", lambda: connects(port))
    client = stage.rhythm(patient_lookups, port=port)
    with stage.recording(after=3.5):
        server.send_signal(signal.SIGHUP)
    return client.truth(culprits=[Who(server.pid)])
