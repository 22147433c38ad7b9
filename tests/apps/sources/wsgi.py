"""A web application; one of its pages asks a service that is slow."""

import time


def report():
    time.sleep(1.2)
    return b"report"


def application(environ, start_response):
    page = report() if environ["PATH_INFO"] == "/report" else b"page"
    start_response("200 OK", [("Content-Length", str(len(page)))])
    return [page]
