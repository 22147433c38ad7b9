"""Whoever has not gone yet: a session, a cursor, a delivery, a login. Mail, folders and databases wait for
them."""

import fcntl
import imaplib
import time

import programs.postgres as postgres
from hang import Who, hang
from programs.once import runs, started
from programs.servers import SLEEPS, until_asleep, write_script
from stage import children, connects, free_port, until

READS = r"ReadCommand|SocketBackend|pq_getbyte|secure_read"


def vacuum(port):
    """Maintenance of a table, once a night."""
    connection = postgres.connect(port)
    statement = "vacuum (freeze) accounts"
    return lambda: connection.run(statement) and None, postgres.backend_of(connection)


def scrolls(port):
    """A program that shows the first rows of a table, and has a cursor for more."""
    connection = postgres.connect(port)

    def look_at_rows():
        connection.run("begin")
        connection.run("declare rows cursor for select * from accounts")
        connection.run("fetch 5 from rows")
        time.sleep(2)
        connection.run("commit")

    return look_at_rows, postgres.backend_of(connection)


PIN = [r"LockBufferForCleanup|ProcWaitForSignal|lazy_scan", READS, rf"look_at_rows|{SLEEPS}"]


@hang("PostgreSQL", PIN, needs=postgres.NEEDS)
def postgres_vacuum_behind_cursor(stage):
    """VACUUM needs a page for itself, on which somebody's cursor stands (a buffer pin)."""
    port = postgres.server(stage, "-c", "autovacuum=off")
    client = stage.errand(vacuum, port=port)
    holder = stage.deed(scrolls, port=port)
    with stage.recording():
        holder.go()
        time.sleep(0.3)
        client.go()
        holder.result()
        return client.truth(
            culprits=[holder.who, Who(holder.facts["backend"])],
            others=[Who(client.facts["backend"])],
        )


def visits_template(port):
    """A tool that shows all databases, and has connected to the template of new ones."""
    import pg8000.native

    def show_template():
        where = {"host": "127.0.0.1", "port": port, "database": "template1"}
        connection = pg8000.native.Connection(postgres.USER, **where)
        time.sleep(2.2)
        connection.close()

    return show_template


def creates_database(port):
    """A program that makes a database for a new customer."""
    connection = postgres.connect(port)
    return lambda: connection.run("create database shop") and None, postgres.backend_of(connection)


TEMPLATE = [r"CountOtherDBBackends|createdb", READS, rf"show_template|{SLEEPS}"]


@hang("PostgreSQL", TEMPLATE, needs=postgres.NEEDS)
def postgres_template_in_use(stage):
    """CREATE DATABASE waits until nobody is connected to the template any more."""
    port = postgres.server(stage)
    client = stage.errand(creates_database, port=port)
    visitor = stage.deed(visits_template, port=port)
    monitor = postgres.connect(port)
    statement = "select pid from pg_stat_activity where datname = 'template1'"
    with stage.recording(after=2):
        visitor.go()
        (backend,), *_ = until("the visitor", lambda: monitor.run(statement))
        client.go()
        truth = client.truth(
            culprits=[visitor.who, Who(backend)], others=[Who(client.facts["backend"])]
        )
        visitor.result()
    return truth


DOVECOT = """
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.txt
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = mbox:{folder}/home/mail:INBOX={folder}/home/inbox
mbox_read_locks = fcntl
mbox_write_locks = fcntl
first_valid_uid = 1
passdb {{
  driver = static
  args = nopassword
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/home
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
"""


def dovecot(stage):
    """A mail server with one mailbox: its process, its port, and the mailbox, once it has letters."""
    port, file, home = free_port(), stage.folder / "dovecot.conf", stage.subfolder("home", "mail")
    file.write_text(DOVECOT.format(folder=stage.folder, port=port))
    server = stage.start("dovecot", "-F", "-c", file)
    until("Dovecot", lambda: connects(port))
    return server, port, home / "inbox"


LETTER = b"From: a@example.com\r\nSubject: order\r\n\r\nDear Sir\r\n"


def mail_program(port):
    """A mail program that keeps a copy of what it has sent."""
    mail = imaplib.IMAP4("127.0.0.1", port)
    mail.login("a", "a")
    mail.select()
    return lambda: mail.append("INBOX", None, None, LETTER) and None


def delivery(path):
    """A filter that looks at all letters of a mailbox, which it locks."""
    file = open(path, "r+b")

    def sort_letters():
        fcntl.lockf(file, fcntl.LOCK_EX)
        time.sleep(1.4)
        fcntl.lockf(file, fcntl.LOCK_UN)

    return sort_letters


@hang("Dovecot", [rf"sort_letters|mbox_|fcntl|{SLEEPS}"], lock=True, needs=["dovecot"])
def dovecot_locked_mailbox(stage):
    """A mail server waits for a mailbox (mbox), which a filter has locked."""
    server, port, mailbox = dovecot(stage)
    client = stage.rhythm(mail_program, port=port)
    until("the mailbox", mailbox.exists)
    other = stage.deed(delivery, path=mailbox)
    with stage.recording():
        other.go()
        other.result()
        serving = children(server.pid)
    return client.truth(culprits=[other.who], others=[Who(server.pid), *serving])


SAMBA = """
[global]
server role = standalone server
disable netbios = yes
smb ports = {port}
interfaces = lo
bind interfaces only = yes
map to guest = bad user
guest account = nobody
load printers = no
disable spoolss = yes
private dir = {folder}/samba
lock directory = {folder}/samba
state directory = {folder}/samba
cache directory = {folder}/samba
pid directory = {folder}/samba
ncalrpc dir = {folder}/samba/rpc
log file = {folder}/samba.txt
[films]
path = {folder}/films
guest ok = yes
root preexec = {folder}/mount-films
"""
# Fetches the folder from a tape before anybody may see it.
PREEXEC = """#!/bin/sh
sleep 1.6
"""


@hang("Samba", [r"nanosleep|wait4|waitpid|smbrun"], needs=["smbd", "smbclient"])
def samba_preexec(stage):
    """A client opens a share, and Samba runs a script before, which takes long (root preexec)."""
    port, file = free_port(), stage.folder / "smb.conf"
    for name in ("samba", "films"):
        stage.subfolder(name)
    (stage.folder / "films/trailer").write_text("film")
    write_script(stage.folder / "mount-films", PREEXEC)
    file.write_text(SAMBA.format(folder=stage.folder, port=port))
    server = stage.start("smbd", "--foreground", "--no-process-group", f"--configfile={file}")
    until("Samba", lambda: connects(port))
    command = ["smbclient", f"--configfile={file}", "--no-pass", "-p", str(port)]
    command += ["//127.0.0.1/films", "-c", "ls"]
    script = stage.errand(runs, argv=command)
    with stage.recording():
        script.go()
        client, _ = started(script.who.pid, "smbclient")
        culprits = until_asleep("mount-films")
        pids = {who.pid for who in culprits}
        others = [who for who in children(server.pid) if who.pid not in pids]
        return script.truth(culprits=culprits, others=[*client, Who(server.pid), *others])
