"""A small web server and its clients, for programs that need the other side."""

import http.client
import http.server
import threading


def get(port, path="/"):
    """A client that asks for one page over a connection that stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def request():
        connection.request("GET", path)
        connection.getresponse().read()

    return request


def serve(port, answer, server=http.server.HTTPServer):
    """A server in a thread of its own; `answer` makes each page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Header and page in one packet: two would wait for each other's acknowledgement.
        wbufsize = 65536

        def do_GET(self):
            page = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_):
            """Silent."""

    listening = server(("127.0.0.1", port), Handler)
    threading.Thread(target=listening.serve_forever, name="server", daemon=True).start()
