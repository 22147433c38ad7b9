"""nginx: in front of a server that is slow, or stopped."""

import grp
import http.server
import pwd

import web
from actor import told
from hang import Who, hang
from programs.python import COMPUTES, validate_input
from stage import children, connects, free_port, stop_for_a_while, until

CONFIGURATION = """
daemon off; worker_processes 1; user nobody {group};
error_log {folder}/error.log; pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  upstream application {{ server 127.0.0.1:{upstream}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""


def application(port, flag):
    """A web application whose next page takes a second once it is told so."""

    def answer(_):
        if told(flag):
            validate_input()
        return b"page"

    web.serve(port, answer, http.server.ThreadingHTTPServer)
    return lambda: None


def proxy(stage):
    """nginx in front of an application: its port, and the two."""
    port, upstream = free_port(), free_port()
    behind = stage.deed(application, port=upstream, flag=stage.folder / "slow")
    return port, start(stage, CONFIGURATION, port, upstream=upstream), behind


def start(stage, configuration, port, **values):
    """nginx with a configuration, as soon as it listens."""
    file = stage.folder / "nginx.conf"
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    values |= {"folder": stage.folder, "port": port, "group": group}
    file.write_text(configuration.format(**values))
    server = stage.start("nginx", "-p", stage.folder, "-c", file)
    until("nginx", lambda: connects(port))
    return server


@hang("nginx", [COMPUTES, r"\banswer\b"], needs=["nginx"])
def nginx_slow_upstream(stage):
    """The application behind computes."""
    port, server, behind = proxy(stage)
    client = stage.rhythm(web.get, port=port)
    with stage.recording(after=3.5):
        (stage.folder / "slow").touch()
    return client.truth(culprits=[Who(behind.who.pid)], others=children(server.pid))


@hang("nginx", [], needs=["nginx"])
def nginx_stopped_upstream(stage):
    """Somebody stops the application behind with a signal."""
    port, server, behind = proxy(stage)
    client = stage.rhythm(web.get, port=port)
    with stage.recording():
        somebody = stop_for_a_while(behind.who.pid)
    return client.truth(culprits=[Who(behind.who.pid), somebody], others=children(server.pid))
