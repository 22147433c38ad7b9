"""A wait that goes through several programs, and through different kinds of waits: a proxy, a
server, a database, a bus, a pipe, a lock, a file system. To blame is whoever comes last."""

import concurrent.futures
import http.server
import os
import shutil
import socket
import threading
import time

import programs.mariadb as mariadb
import programs.nginx as nginx
import programs.postgres as postgres
import programs.redis as redis
import web
from actor import told
from hang import Who, hang
from programs.desktop import NAME, bus, bus_client
from programs.everyday import FPM, fpm
from programs.go_betweens import drive
from programs.kernel import ticking
from programs.languages import go_server
from programs.once import SOURCES, partner, runs, started
from programs.queues import HAPROXY
from programs.repeated import LUA, lua, redis_server
from programs.servers import SLEEPS, subscribe, thermostat
from programs.unfinished import LEAVES, keeps_row
from stage import children, connects, free_port, thread_of, until


def shop(port, database):
    """A web application that keeps its accounts in a database."""
    connection = postgres.connect(database)

    def buy(_):
        connection.run("update accounts set amount = amount + 1 where id = 7")
        return b"bought"

    web.serve(port, buy, http.server.ThreadingHTTPServer)
    return lambda: None, postgres.backend_of(connection)


@hang("HAProxy", LEAVES, True, ["haproxy", *postgres.NEEDS])
def haproxy_to_row_lock(stage):
    """A client waits for a proxy, that for an application, that for a backend, and that for a row
    that another client has locked."""
    database, port, upstream = postgres.server(stage), free_port(), free_port()
    application = stage.deed(shop, port=upstream, database=database)
    file = stage.folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, upstream=upstream))
    proxy = stage.start("haproxy", "-db", "-f", file)
    until("HAProxy", lambda: connects(port))
    client = stage.rhythm(web.get, port=port)
    holder = stage.deed(keeps_row, port=database, seconds=2.4)
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[
            *(Who(proxy.pid), *children(proxy.pid)),
            *(Who(application.who.pid), Who(application.facts["backend"])),
        ],
    )


NGINX = """
daemon off; worker_processes 1; user nobody {group};
error_log {folder}/error.log; pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      fastcgi_pass 127.0.0.1:{upstream};
      fastcgi_param SCRIPT_FILENAME {folder}/order.php;
      fastcgi_param REQUEST_METHOD $request_method;
    }}
  }}
}}
"""
ORDER = """<?php
$orders = fopen("{orders}", "a");
flock($orders, LOCK_EX);
fwrite($orders, "order\\n");
fclose($orders);
echo "ordered";
"""


@hang("PHP-FPM", [], lock=True, needs=["nginx", "flock"])
def nginx_fpm_to_file_lock(stage):
    """A client waits for nginx, that for PHP, and that for a file that a command has locked."""
    port, upstream, orders = free_port(), free_port(), stage.folder / "orders"
    orders.touch()
    shutil.chown(orders, "nobody")
    (stage.folder / "order.php").write_text(ORDER.format(orders=orders))
    file = stage.folder / "fpm.conf"
    file.write_text(FPM.format(folder=stage.folder, port=upstream))
    pool = stage.start(fpm(), "--nodaemonize", "--fpm-config", file)
    until("PHP-FPM", lambda: connects(upstream) and len(children(pool.pid)) == 2)
    proxy = nginx.start(stage, NGINX, port, upstream=upstream)
    client = stage.rhythm(web.get, port=port)
    with stage.recording():
        holder = stage.start("flock", orders, "sleep", "0.8")
        sleep, _ = started(holder.pid, "sleep")
        holder.wait()
    others = [*children(proxy.pid), *children(pool.pid)]
    return client.truth(culprits=[Who(holder.pid), *sleep], others=others)


def price_service(path, flag):
    """A service with a pool of threads, all of which need its prices. Another thread gets new
    ones."""
    lock, pool = threading.Lock(), concurrent.futures.ThreadPoolExecutor(3)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def look_up_price(line):
        with lock:
            return line

    def serve(connection):
        for line in connection.makefile("rb"):
            connection.sendall(pool.submit(look_up_price, line).result())

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    def get_prices():
        while True:
            if told(flag):
                with lock:
                    time.sleep(1.4)
            time.sleep(0.02)

    threading.Thread(target=accept, daemon=True).start()
    getting = threading.Thread(target=get_prices, daemon=True)
    getting.start()
    return ticking(), {"getting": getting.native_id}


PRICES = rf"get_prices|look_up_price|acquire_lock|lock_acquire|{SLEEPS}"


@hang("Node.js", [PRICES], lock=True, needs=["node"])
def node_to_python_lock(stage):
    """A client waits for a gateway in Node.js, that over a Unix socket for a thread in Python, that
    for one of a pool, and that for a lock with which another thread sleeps."""
    port, path, flag = free_port(), stage.folder / "prices", stage.folder / "new"
    service = stage.actor("deed", price_service, path=path, flag=flag)
    gateway = stage.start("node", SOURCES / "prices.js", port, path)
    until("Node.js", lambda: connects(port))
    client = stage.rhythm(web.get, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    pid, getting = service.who.pid, service.facts["getting"]
    tids = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    others = [Who(gateway.pid), *(Who(pid, tid) for tid in tids if tid != getting)]
    return client.truth(culprits=[Who(pid, getting)], others=others)


RUBY = r"measure_glyphs|vm_exec|rb_"


@hang("a pipeline", [RUBY], lock=True, needs=["tar", "perl", "gzip", "ruby"])
def pipeline_to_file_lock(stage):
    """A shell waits for a pipeline. Its helper in Perl waits for a key, which a program in Ruby has
    locked; tar cannot go on, and gzip has nothing to do."""
    tree, key = stage.subfolder("tree"), stage.folder / "key"
    for n in range(30):
        (tree / f"picture{n}").write_bytes(os.urandom(20_000))
    sign = f"perl {SOURCES}/signing.pl {key}"
    pipeline = f"tar -c -f - {tree} | {sign} | gzip >{stage.folder}/signed.gz"
    script = stage.errand(runs, argv=["sh", "-c", pipeline])
    other = partner(stage, "ruby", SOURCES / "fonts.rb", key, "0.8")
    with stage.recording():
        other.go()
        other.result()
        script.go()
        perl, others = started(script.who.pid, "perl")
        return script.truth(culprits=[Who(other.who.pid)], others=[*perl, *others])


def ranking_service(address, port):
    """A service on the bus that looks up in Redis what it is asked for."""
    from jeepney import MessageType, message_bus, new_method_return
    from jeepney.io.blocking import open_dbus_connection

    bus_connection, cache = open_dbus_connection(address), redis.connect(port)
    bus_connection.send_and_get_reply(message_bus.RequestName(NAME))

    def serve_ranks():
        while True:
            message = bus_connection.receive()
            if message.header.message_type == MessageType.method_call:
                redis.ask(cache, "get rank")
                bus_connection.send(new_method_return(message))

    return serve_ranks


@hang("D-Bus", [LUA], needs=["dbus-daemon", *redis.REDIS])
def dbus_to_redis_script(stage):
    """A desktop program waits for the bus, that for a service, and that for Redis, which runs a
    script for somebody else."""
    daemon, address = bus(stage)
    server, port = redis_server(stage)
    service = stage.deed(ranking_service, address=address, port=port)
    service.go()
    client = stage.rhythm(bus_client, address=address)
    other = stage.deed(redis.command, port=port, prepare=[], line=lua(1800))
    with stage.recording():
        other.go()
        other.result()
    return client.truth(
        culprits=[Who(server.pid, server.pid)], others=[Who(daemon.pid), service.who]
    )


def library(port, folder):
    """A web server whose pages are files."""

    def read_page(path):
        handle = os.open(folder + path, os.O_RDONLY)
        page = os.read(handle, 4096)
        os.close(handle)
        return page

    web.serve(port, read_page, http.server.ThreadingHTTPServer)
    return lambda: None


@hang("socat", [rf"fetch_block|serve_drive|read_page|{SLEEPS}"], needs=["socat", "curl"])
def socat_to_slow_drive(stage):
    """curl waits for a relay, that for a web server, and that for a file system (FUSE) that fetches
    a film from far away."""
    port, upstream = free_port(), free_port()
    server, folder = drive(stage)
    site = stage.deed(library, port=upstream, folder=folder)
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
    relay = stage.start("socat", listen, f"TCP:127.0.0.1:{upstream}")
    until("socat", lambda: connects(port))
    command = ["curl", "--silent", "--output", "/dev/null", f"http://127.0.0.1:{port}/film"]
    script = stage.errand(runs, argv=command)
    with stage.recording():
        script.go()
        passes_on = until("the relay's child", lambda: children(relay.pid))
        curl, _ = started(script.who.pid, "curl")
        others = [Who(relay.pid), *passes_on, *curl, Who(site.who.pid)]
        return script.truth(culprits=[Who(server.who.pid)], others=others)


MONITOR = r"countShelves|takeStock|showShelf|ObjectMonitor"


@hang("Java", [MONITOR], lock=True, needs=["go", "java", "javac"])
def go_to_java_monitor(stage):
    """A client waits for a gateway in Go, that for a pool in Java, and that for a monitor with
    which another thread computes."""
    upstream, classes, flag = free_port(), stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, SOURCES / "Shelves.java")
    shelves = stage.start("java", "-cp", classes, "Shelves", upstream, flag)
    until("Java", lambda: connects(upstream))
    gateway, port = go_server(stage, "gateway", upstream)
    client = stage.rhythm(web.get, port=port)
    counting = thread_of(shelves.pid, "stocktaking")
    with stage.recording(after=2.7):
        flag.touch()
        tids = [int(tid) for tid in os.listdir(f"/proc/{shelves.pid}/task")]
    others = [Who(gateway.pid), *(Who(shelves.pid, tid) for tid in tids if tid != counting.tid)]
    return client.truth(culprits=[counting], others=others)


def meter(port, path):
    """A subscriber that counts in a database how often it has been asked."""
    publish, receive = subscribe(port, "meter", "kitchen/ask")
    connection = mariadb.connect(path)

    def count_questions():
        while True:
            receive()
            mariadb.run(connection, "update accounts set amount = amount + 1 where id = 7")
            publish("kitchen/answer")

    return count_questions, mariadb.thread_of_connection(connection)


def books(path):
    """A client that thinks for a moment while it has a row locked."""
    connection = mariadb.connect(path)

    def check_bill():
        mariadb.run(connection, "begin")
        mariadb.run(connection, "update accounts set amount = 0 where id = 7")
        time.sleep(0.6)
        mariadb.run(connection, "commit")

    return check_bill, mariadb.thread_of_connection(connection)


BILLS = rf"check_bill|count_questions|{SLEEPS}"


@hang("Mosquitto", [*mariadb.WAITS, BILLS], True, ["mosquitto", *mariadb.NEEDS])
def mosquitto_to_row_lock(stage):
    """A program waits for a broker, that for a subscriber, that for a database's thread, and that
    for a row that another client has locked."""
    pid, path = mariadb.server(stage)
    port, file = free_port(), stage.folder / "mosquitto.conf"
    file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    broker = stage.start("mosquitto", "-c", file)
    until("Mosquitto", lambda: connects(port))
    subscriber = stage.deed(meter, port=port, path=path)
    subscriber.go()
    client = stage.rhythm(thermostat, port=port)
    holder = stage.deed(books, path=path)
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=mariadb.sides(pid, holder),
        others=[Who(broker.pid), *mariadb.sides(pid, subscriber)],
    )
