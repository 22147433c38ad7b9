"""Ruby: one lock for all threads of the interpreter."""

from hang import Who, hang
from stage import HERE, connects, free_port, until
import web


def visit(port, path):
    """A client that asks for one expensive page."""
    return web.get(port, path)


@hang("Ruby", [r"index_words|rb_ary_sort|sort_[12]\b|ruby_qsort|rb_str_cmp"], needs=["ruby"])
def ruby_global_lock(stage):
    """A thread computes in one call, so no other thread of Ruby runs."""
    port = free_port()
    server = stage.start("ruby", HERE / "sources/server.rb", port)
    until("Ruby", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/fast")
    other = stage.deed(visit, port=port, path="/sort")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])
