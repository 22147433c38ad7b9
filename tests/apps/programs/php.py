"""PHP: two requests of one session, one after the other."""

import http.client
import os

from hang import Who, hang
from stage import HERE, children, connects, free_port, until


def page(port, path):
    """A browser that opens a connection for each page of its session."""

    def visit():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path, headers={"Cookie": "PHPSESSID=abcdef0123456789abcdef0123"})
        connection.getresponse().read()
        connection.close()

    return visit


@hang("PHP", [], lock=True, needs=["php"])
def php_session_lock(stage):
    """A page of the same session sleeps, and has the session's file locked."""
    port, sessions = free_port(), stage.subfolder("sessions")
    options = ["-d", f"session.save_path={sessions}", "-t", HERE / "sources"]
    workers = os.environ | {"PHP_CLI_SERVER_WORKERS": "4"}
    server = stage.start("php", *options, "-S", f"127.0.0.1:{port}", env=workers)
    until("PHP", lambda: connects(port))
    client = stage.rhythm(page, port=port, path="/session.php")
    other = stage.deed(page, port=port, path="/session.php?slow=1")
    with stage.recording():
        other.go()
        other.result()
    workers = [Who(server.pid), *children(server.pid)]
    return client.truth(culprits=workers, others=workers)
