"""The questions of the report, in SQL that DuckDB and Spark read alike.

Every answer is ordered, so that both give the same rows in the same order; ``test_spark.py``
compares them.
"""

from __future__ import annotations

__all__ = ["QUERIES", "SLOW_NS"]

SLOW_NS = 20_000_000
"""From this length on a wait is one that somebody could notice."""

CAUSES = """
select c.cause_id, c.pattern, c.culprit, c.function,
       count(*) as stalls, count(distinct c.trace_id) as traces, count(distinct t.host) as hosts,
       sum(c.duration_ns) as total_ns, max(c.duration_ns) as worst_ns,
       min(t.day) as first_day, max(t.day) as last_day
from causes c join traces t on t.trace_id = c.trace_id
group by c.cause_id, c.pattern, c.culprit, c.function
order by total_ns desc, c.cause_id
"""

COVERAGE = """
select cause_id, total_ns,
       row_number() over (order by total_ns desc, cause_id) as causes,
       sum(total_ns) over (order by total_ns desc, cause_id
                           rows between unbounded preceding and current row) as covered_ns,
       sum(total_ns) over () as all_ns
from (select cause_id, sum(duration_ns) as total_ns from causes group by cause_id) as sums
order by causes
"""

EXEMPLARS = """
select cause_id, nth, trace_id, stall, duration_ns
from (select cause_id, trace_id, stall, duration_ns,
             row_number() over (partition by cause_id
                                order by duration_ns desc, trace_id, stall) as nth
      from causes) as ranked
where nth <= 3
order by cause_id, nth
"""

EDGES = """
select e.class, e.wait_function, e.wake_function, e.sleeper, e.waker,
       count(distinct e.trace_id) as traces, sum(e.own_ns) as own_ns, sum(e.total_ns) as total_ns
from edges e
where e.depth > 0
group by e.class, e.wait_function, e.wake_function, e.sleeper, e.waker
order by total_ns desc, e.class, e.wait_function, e.wake_function, e.sleeper, e.waker
limit 50
"""

EXPOSURE = """
select p.process, p.program, p.build_id, count(distinct t.trace_id) as traces,
       coalesce(min(t.recorded_ns), 0) as first_ns, min(t.day) as first_day
from programs p
join traces t on t.trace_id = p.trace_id
join (select distinct process from stalls) as suffered on suffered.process = p.process
group by p.process, p.program, p.build_id
order by p.process, p.program, first_ns, p.build_id
"""

HITS = """
select p.process, p.program, p.build_id, c.cause_id, c.pattern, c.function,
       count(distinct c.trace_id) as traces, sum(c.duration_ns) as total_ns
from causes c
join stalls s on s.trace_id = c.trace_id and s.stall = c.stall
join programs p on p.trace_id = c.trace_id and p.process = s.process
group by p.process, p.program, p.build_id, c.cause_id, c.pattern, c.function
order by p.process, p.program, p.build_id, c.cause_id
"""

OPERATIONS = """
select p.process,
       sum(case when s.trace_id is null then 0 else 1 end) as slow,
       sum(case when s.trace_id is null then 1 else 0 end) as fast
from (select distinct process, trace_id from programs) as p
left join (select distinct process, trace_id from stalls) as s
       on s.process = p.process and s.trace_id = p.trace_id
group by p.process
having sum(case when s.trace_id is null then 0 else 1 end) > 0
order by p.process
"""

CONTRAST = f"""
select w.process, w.pattern_id, w.pattern,
       sum(case when s.trace_id is null then 0 else 1 end) as in_slow,
       sum(case when s.trace_id is null then 1 else 0 end) as in_fast
from wait_patterns w
left join (select distinct process, trace_id from stalls) as s
       on s.process = w.process and s.trace_id = w.trace_id
where w.max_ns >= {SLOW_NS}
group by w.process, w.pattern_id, w.pattern
order by w.process, w.pattern_id
"""

CHAINS = """
select c.trace_id, c.stall, c.cause_id, c.pattern, c.function, c.duration_ns,
       e.class, e.wait_function, e.wake_function, e.sleeper, e.waker
from causes c
left join edges e on e.trace_id = c.trace_id and e.stall = c.stall
                 and e.depth > 0 and e.total_ns * 50 >= c.duration_ns
order by c.trace_id, c.stall, e.class, e.wait_function, e.wake_function, e.sleeper, e.waker
"""

TRACES = """
select count(*) as traces, count(distinct host) as hosts, min(day) as first_day,
       max(day) as last_day, sum(duration_ns) as duration_ns, sum(stalls) as stalls,
       sum(case when stalls > 0 then 1 else 0 end) as with_stalls,
       sum(case when lost_events > 0 then 1 else 0 end) as with_losses
from traces
"""

QUERIES = {
    "traces": TRACES,
    "causes": CAUSES,
    "coverage": COVERAGE,
    "exemplars": EXEMPLARS,
    "edges": EDGES,
    "exposure": EXPOSURE,
    "hits": HITS,
    "operations": OPERATIONS,
    "contrast": CONTRAST,
    "chains": CHAINS,
}
"""The queries of the report by name."""
