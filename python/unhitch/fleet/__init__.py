"""What costs all machines most: a folder of recordings becomes tables, and those an answer.

    from unhitch import fleet

    fleet.ingest("/srv/traces", into="/srv/fleet")
    print(fleet.report("/srv/fleet").text)
    fleet.connect("/srv/fleet").sql("select pattern, count(*) from causes group by 1")

One machine needs nothing but this package, DuckDB and pyarrow. With ``spark="spark://…"``, a cluster
reads the recordings (docs/spark.md). ``docs/fleet.md`` describes the tables.
"""

from ._ingest import Ingested, ingest
from ._report import Report, report
from ._spark import session as spark_session, views as spark_views
from ._store import TABLES, compact, connect, delete, fingerprint

__all__ = [
    "TABLES",
    "Ingested",
    "Report",
    "compact",
    "connect",
    "delete",
    "fingerprint",
    "ingest",
    "report",
    "spark_session",
    "spark_views",
]
