//! What to record next time, exactly, where a trace lacks what an answer needs.

use unhitch_model::Format;

/// How to record context switches and wake-ups with their stacks.
pub fn switches(format: Format) -> &'static str {
    match format {
        Format::Etl => {
            "Record context switches next time: in UIforETW tick \"Context switch call stacks\" and \"CPU sampling call stacks\"; or \
             `wpr -start CPU`; or `xperf -on PROC_THREAD+LOADER+PROFILE+CSWITCH+DISPATCHER+DPC+INTERRUPT -stackwalk \
             Profile+CSwitch+ReadyThread`, then `xperf -merge`."
        }
        _ => "Record with `unhitch record`, or with `perf record -a -g -e sched:sched_switch -e sched:sched_waking`.",
    }
}

/// How to record CPU samples, where there are none.
pub fn samples(format: Format) -> &'static str {
    match format {
        Format::Etl => "Record CPU samples too: `xperf -on …+PROFILE -stackwalk Profile+…`; UIforETW and `wpr -start CPU` do.",
        _ => "`unhitch record` samples unless `--rate 0` is given; to `perf record` add `-e cpu-clock`.",
    }
}

/// How to record the wake-ups, where there are switches alone.
pub fn wakings(format: Format) -> &'static str {
    match format {
        Format::Etl => {
            "Record the readying of threads too: `xperf -on …+CSWITCH+DISPATCHER -stackwalk CSwitch+ReadyThread`; UIforETW and \
             `wpr -start CPU` do."
        }
        _ => "Record with `unhitch record`, or give perf record `-e sched:sched_waking` as well.",
    }
}
