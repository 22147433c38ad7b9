"""PostgreSQL: row locks, the queue for a table's lock, a deadlock, a query that computes, a lock of
the server's own."""

import os
import pathlib
import signal
import threading
import time

from actor import told
from hang import DidNotHang, Who, hang
from stage import children, connects, free_port, until

USER = "postgres"
# The wait for a lock, and a session that is idle in its transaction.
LOCKS = [
    r"ProcSleep|LockAcquire|WaitOnLock|XactLockTableWait|heap_(update|lock_tuple)",
    r"ReadCommand|SocketBackend|pq_getbyte|secure_read",
]
# What the long SELECT does, and the sort for its keys.
COMPUTES_MD5 = r"md5_text|pg_md5_hash|pg_cryptohash"
NEEDS = ["postgres", "initdb"]
STANDBY_NEEDS = [*NEEDS, "pg_basebackup"]
# The wait for a standby, and what its receiver does.
REPLICATION = r"SyncRep|XLogWalRcv|WalR(cv|eceiver)|walrcv"


def connect(port):
    import pg8000.native

    return pg8000.native.Connection(USER, host="127.0.0.1", port=port, database="postgres")


def backend_of(connection):
    return {"backend": connection.run("select pg_backend_pid()")[0][0]}


def server(stage, *options, data=None):
    """A fresh server with one table of accounts; its port."""
    data, port = data or stage.subfolder("data", USER), free_port()
    stage.run("initdb", "-D", data, "-A", "trust", "--no-sync", user=USER)
    stage.start("postgres", "-D", data, "-p", port, "-k", data, *options, user=USER)
    until("PostgreSQL", lambda: connects(port))
    connection = until("a connection", lambda: first_connection(port))
    connection.run("create table accounts (id int primary key, amount int)")
    connection.run("insert into accounts select n, 0 from generate_series(1, 1000) n")
    connection.close()
    return port


def first_connection(port):
    """None while the server still starts."""
    import pg8000.exceptions

    try:
        return connect(port)
    except (pg8000.exceptions.DatabaseError, pg8000.exceptions.InterfaceError):
        return None


def standby(stage, primary):
    """A synchronous standby: its process that receives what the primary has written, and the
    primary's one that sends it."""
    port, folder = free_port(), stage.subfolder("standby", USER)
    folder.chmod(0o700)
    source = ["-h", "127.0.0.1", "-p", primary, "-U", USER]
    backup = ["-D", folder, "-R", "-c", "fast", "--no-sync"]
    stage.run("pg_basebackup", *source, *backup, user=USER)
    second = stage.start("postgres", "-D", folder, "-p", port, "-k", folder, user=USER)
    receiver = until("the receiver", lambda: walreceiver(second.pid))
    administrator = connect(primary)
    administrator.run("alter system set synchronous_standby_names = '*'")
    administrator.run("select pg_reload_conf()")
    sender = "select pid from pg_stat_replication where sync_state = 'sync'"
    (pid,), *_ = until("the standby", lambda: administrator.run(sender))
    return receiver, Who(pid)


def walreceiver(pid):
    """The child of a standby's server that receives."""
    for child in children(pid):
        if b"walreceiver" in pathlib.Path(f"/proc/{child.pid}/cmdline").read_bytes():
            return child
    return None


def pay(port):
    """A client that updates one row."""
    connection = connect(port)

    def update():
        connection.run("update accounts set amount = amount + 1 where id = 7")

    return update, backend_of(connection)


def read(port):
    """A client that reads one row."""
    connection = connect(port)

    def select():
        connection.run("select amount from accounts where id = 7")

    return select, backend_of(connection)


def idle_in_transaction(port):
    """A client that thinks while it has a row lock."""
    connection = connect(port)

    def think():
        connection.run("begin")
        connection.run("update accounts set amount = 0 where id = 7")
        time.sleep(1.2)
        connection.run("commit")

    return think, backend_of(connection)


@hang("PostgreSQL", LOCKS, lock=True, needs=NEEDS)
def postgres_row_lock(stage):
    """A row lock is held by a backend that is idle in transaction."""
    port = server(stage)
    payer = stage.rhythm(pay, port=port)
    holder = stage.deed(idle_in_transaction, port=port)
    with stage.recording():
        holder.go()
        holder.result()
    return payer.truth(
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[Who(payer.facts["backend"])],
    )


# Computes for the seconds, in one statement.
REPORT = """
do $$
declare until timestamptz := clock_timestamp() + '%s seconds';
begin
  while clock_timestamp() < until loop
    perform sum(length(md5(id::text))) from accounts;
  end loop;
end $$
"""


def long_report(port):
    """A client whose statement reads the table for more than a second."""
    connection = connect(port)
    return lambda: connection.run(REPORT % 1.2) and None, backend_of(connection)


def alter(port):
    """A client that changes the table."""
    connection = connect(port)

    def change():
        connection.run("alter table accounts add column note text")

    return change, backend_of(connection)


def lock_in_order(port, first, second):
    """A client whose transaction takes row locks, with a pause before the last."""
    connection = connect(port)
    update = "update accounts set amount = 1 where id = :id"

    def transact():
        try:
            connection.run("begin")
            for row in first:
                connection.run(update, id=row)
            time.sleep(0.1)
            connection.run(update, id=second)
            connection.run("commit")
        except Exception:  # the deadlock's victim
            connection.run("rollback")

    return transact, backend_of(connection)


@hang("PostgreSQL", LOCKS + [COMPUTES_MD5], lock=True, needs=NEEDS)
def postgres_lock_queue(stage):
    """ALTER TABLE waits for a long SELECT, and every reader waits behind it."""
    port = server(stage)
    reader = stage.rhythm(read, port=port)
    report = stage.deed(long_report, port=port)
    change = stage.deed(alter, port=port)
    with stage.recording():
        report.go()
        time.sleep(0.1)
        change.go()
        report.result()
        change.result()
    return reader.truth(
        culprits=[report.who, Who(report.facts["backend"])],
        others=[Who(reader.facts["backend"]), change.who, Who(change.facts["backend"])],
    )


@hang("PostgreSQL", LOCKS + ["DeadLockCheck|CheckDeadLock"], lock=True, needs=NEEDS)
def postgres_deadlock(stage):
    """Two transactions lock each other out until one of them looks, after a second. The victim
    waits for a lock of the first one, and has no part in that."""
    port = server(stage)
    payer = stage.rhythm(pay, port=port)
    one = stage.deed(lock_in_order, port=port, first=[7, 8], second=9)
    other = stage.deed(lock_in_order, port=port, first=[9], second=8)
    with stage.recording():
        one.go()
        other.go()
        one.result()
        other.result()
    both = [one, other]
    return payer.truth(
        culprits=[who for each in both for who in (each.who, Who(each.facts["backend"]))],
        others=[Who(payer.facts["backend"])],
    )


@hang(
    "PostgreSQL",
    [COMPUTES_MD5, r"tuplesort|qsort|ExecSort|comparetup|varstr|bttext|strcoll"],
    needs=NEEDS,
)
def postgres_sort(stage):
    """A client waits for its own backend, which sorts."""
    port = server(stage)
    client = stage.rhythm(sometimes_sorts, port=port, flag=stage.folder / "sort")
    with stage.recording():
        (stage.folder / "sort").touch()
        time.sleep(2.5)
    return client.truth(culprits=[Who(client.facts["backend"])])


def sometimes_sorts(port, flag):
    """A client with one query that is far slower than the others."""
    connection = connect(port)

    def query():
        rows = 350_000 if told(flag) else 100
        connection.run(
            "select max(t) from (select md5(n::text) t from generate_series(1, :rows) n"
            " order by 1 offset 1) sorted",
            rows=rows,
        )

    return query, backend_of(connection)


def hold(port, statements, last):
    """A client that takes a lock, thinks, and gives it back."""
    connection = connect(port)

    def think():
        for statement in statements:
            connection.run(statement)
        time.sleep(1.2)
        connection.run(last)

    return think, backend_of(connection)


def ask(port, statement):
    """A client that repeats one statement."""
    connection = connect(port)
    return lambda: connection.run(statement) and None, backend_of(connection)


def held(stage, statement, statements, last):
    """A hang of whoever repeats `statement`, while somebody keeps a lock."""
    port = server(stage)
    client = stage.rhythm(ask, port=port, statement=statement)
    holder = stage.deed(hold, port=port, statements=statements, last=last)
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[Who(client.facts["backend"])],
    )


@hang("PostgreSQL", LOCKS, lock=True, needs=NEEDS)
def postgres_advisory_lock(stage):
    """Two programs agree by an advisory lock; one keeps it."""
    take, give = "select pg_advisory_lock(1)", "select pg_advisory_unlock(1)"
    both = "select pg_advisory_lock(1), pg_advisory_unlock(1)"
    return held(stage, both, [take], give)


@hang("PostgreSQL", LOCKS, lock=True, needs=NEEDS)
def postgres_lock_table(stage):
    """A migration has the table locked and thinks."""
    lock = "lock table accounts in access exclusive mode"
    return held(stage, "select count(*) from accounts", ["begin", lock], "commit")


def commits(port):
    """A client that commits all the time, so its backend mostly has the lock for writing the log."""
    connection = connect(port)

    def store():
        end = time.monotonic() + 5
        while time.monotonic() < end:
            connection.run("update accounts set amount = amount + 1 where id = 8")

    return store, backend_of(connection)


def stop_with_lock(port, holder, waiter):
    """Stops the backend `holder` with a signal, at a moment at which it has an LWLock that `waiter`
    needs: that is tried until pg_stat_activity says so."""
    monitor = connect(port)
    statement = (
        "select wait_event from pg_stat_activity where wait_event_type = 'LWLock' and pid = "
    )
    for _ in range(40):
        os.kill(holder, signal.SIGSTOP)
        time.sleep(0.05)
        caught = monitor.run(f"{statement}{waiter}")
        if caught:
            time.sleep(1.2)
        os.kill(holder, signal.SIGCONT)
        if caught:
            return Who(os.getpid(), threading.get_native_id())
        time.sleep(0.03)
    raise DidNotHang("the backend was never stopped while it had a lock")


@hang("PostgreSQL", [r"LWLockAcquire|XLogFlush|XLogWrite"], lock=True, needs=NEEDS)
def postgres_lwlock(stage):
    """A backend was stopped while it had the lock for writing the log."""
    port = server(stage)
    payer = stage.rhythm(pay, port=port)
    holder = stage.deed(commits, port=port)
    with stage.recording():
        holder.go()
        time.sleep(0.1)
        backends = holder.facts["backend"], payer.facts["backend"]
        somebody = stop_with_lock(port, *backends)
    return payer.truth(culprits=[Who(backends[0]), somebody], others=[Who(backends[1])])
