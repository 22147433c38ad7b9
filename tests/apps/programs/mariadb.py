"""MariaDB: a row lock of InnoDB, the lock of all tables, the queue for a table's definition."""

import time

from hang import Who, hang
from stage import connects, until

USER = "mysql"
NEEDS = ["mariadbd", "mariadb-install-db"]
# The wait for a lock, and a session that waits for its client's next command.
WAITS = [
    r"lock_wait|^row_|ha_innobase|^que_|MDL_|open_table|User_level_lock",
    r"do_command|my_net_read|net_real_read|vio_read|vio_socket_io_wait",
]


def connect(path):
    import pymysql

    return pymysql.connect(unix_socket=path, user="root", database="test", autocommit=True)


def run(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def thread_of_connection(connection):
    statement = "select tid from information_schema.processlist where id = connection_id()"
    return {"thread": run(connection, statement)[0][0]}


def server(stage, *options):
    """A fresh server with one table of accounts; its process and its socket."""
    data = stage.subfolder("data", USER)
    stage.run(
        *("mariadb-install-db", "--no-defaults", f"--user={USER}", f"--datadir={data}"),
        *("--skip-test-db", "--auth-root-authentication-method=normal"),
    )
    path = data / "socket"
    process = stage.start(
        *("mariadbd", "--no-defaults", f"--user={USER}", f"--datadir={data}"),
        *(f"--socket={path}", "--skip-networking", f"--pid-file={data}/pid", *options),
    )
    until("MariaDB", lambda: connects(path))
    stage.deed(create_tables, path=path)
    return process.pid, path


def create_tables(path):
    import pymysql

    connection = pymysql.connect(unix_socket=path, user="root", autocommit=True)
    run(connection, "create database test")
    run(connection, "use test")
    run(connection, "create table accounts (id int primary key, amount int) engine=InnoDB")
    run(connection, "insert into accounts select seq, 0 from seq_1_to_1000")
    return lambda: None


def pay(path):
    """A client that updates one row."""
    connection = connect(path)

    def update():
        run(connection, "update accounts set amount = amount + 1 where id = 7")

    return update, thread_of_connection(connection)


def read(path):
    """A client that reads one row."""
    connection = connect(path)

    def select():
        run(connection, "select amount from accounts where id = 7")

    return select, thread_of_connection(connection)


def think_between(path, first, last):
    """A client that does something, thinks, and then ends it."""
    connection = connect(path)

    def think():
        for statement in first:
            run(connection, statement)
        time.sleep(1.2)
        run(connection, last)

    return think, thread_of_connection(connection)


def alter(path):
    """A client that changes the table."""
    connection = connect(path)

    def change():
        run(connection, "alter table accounts add column note text")

    return change, thread_of_connection(connection)


def sides(pid, *actors):
    """Each client, and the server's thread that works for it."""
    return [who for each in actors for who in (each.who, Who(pid, each.facts["thread"]))]


@hang("MariaDB", WAITS, lock=True, needs=NEEDS)
def mariadb_row_lock(stage):
    """A row lock of InnoDB is held by a client that thinks."""
    pid, path = server(stage)
    payer = stage.rhythm(pay, path=path)
    update = ["begin", "update accounts set amount = 0 where id = 7"]
    holder = stage.deed(think_between, path=path, first=update, last="commit")
    with stage.recording():
        holder.go()
        holder.result()
    return payer.truth(culprits=sides(pid, holder), others=sides(pid, payer))


@hang("MariaDB", WAITS, lock=True, needs=NEEDS)
def mariadb_all_tables(stage):
    """A backup tool has locked all tables with FLUSH TABLES WITH READ LOCK."""
    pid, path = server(stage)
    payer = stage.rhythm(pay, path=path)
    flush = ["flush tables with read lock"]
    holder = stage.deed(think_between, path=path, first=flush, last="unlock tables")
    with stage.recording():
        holder.go()
        holder.result()
    return payer.truth(culprits=sides(pid, holder), others=sides(pid, payer))


@hang("MariaDB", WAITS, lock=True, needs=NEEDS)
def mariadb_lock_queue(stage):
    """ALTER TABLE waits for an open transaction, and every reader waits behind it."""
    pid, path = server(stage)
    reader = stage.rhythm(read, path=path)
    select = ["begin", "select count(*) from accounts"]
    holder = stage.deed(think_between, path=path, first=select, last="commit")
    change = stage.deed(alter, path=path)
    with stage.recording():
        holder.go()
        time.sleep(0.1)
        change.go()
        holder.result()
        change.result()
    return reader.truth(culprits=sides(pid, holder), others=sides(pid, reader, change))


@hang("MariaDB", WAITS + [r"Item_func_get_lock|get_lock"], lock=True, needs=NEEDS)
def mariadb_named_lock(stage):
    """A lock with a name (GET_LOCK) is held by a client that thinks."""
    pid, path = server(stage)
    client = stage.rhythm(named_lock, path=path)
    take = ["select get_lock('report', 10)"]
    holder = stage.deed(think_between, path=path, first=take, last="do release_lock('report')")
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(culprits=sides(pid, holder), others=sides(pid, client))


def named_lock(path):
    """A client that takes and gives back a lock with a name."""
    connection = connect(path)

    def take():
        run(connection, "select get_lock('report', 10)")
        run(connection, "select release_lock('report')")

    return take, thread_of_connection(connection)
