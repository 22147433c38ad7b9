//! Every format's export of every golden trace and of a real recording.

mod checks;
mod round_trip;

use checks::with_analysis;
use unhitch_analysis::Analysis;
use unhitch_model::Trace;

/// The golden traces, and a recording of a real hang.
fn traces() -> Vec<(&'static str, Trace)> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    unhitch_golden::type_an_email().write(&path("email")).unwrap();
    unhitch_golden::move_my_mouse().write(&path("mouse")).unwrap();
    unhitch_golden::sixty_three_cores().write(&path("cores")).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");
    ["email", "mouse", "cores"]
        .map(|name| (name, unhitch_formats::open(&path(name)).unwrap()))
        .into_iter()
        .chain([("starve", unhitch_formats::open(example.as_ref()).unwrap())])
        .collect()
}

fn of_all(check: impl Fn(&Analysis<'_>)) {
    for (name, trace) in traces() {
        // A failure is of the last one.
        println!("{name}");
        with_analysis(trace, &check);
    }
}

#[test]
fn perfetto_has_our_states_and_stacks() {
    of_all(checks::perfetto::check);
}

#[test]
fn perfettos_descriptors_know_every_field() {
    let test = "perfettos_descriptors_know_every_field";
    of_all(|analysis| checks::perfetto::check_descriptors(analysis, test));
}

#[test]
fn pprof_has_our_sums() {
    of_all(checks::pprof::check);
}

#[test]
fn go_tool_pprof_prints_our_sums() {
    of_all(|analysis| checks::pprof::check_with_go(analysis, "go_tool_pprof_prints_our_sums"));
}

#[test]
fn folded_stacks_have_our_sums() {
    of_all(checks::folded::check);
}

#[test]
fn inferno_draws_folded_stacks() {
    of_all(checks::folded::check_with_inferno);
}

#[test]
fn a_profile_for_firefox_is_sound_and_has_our_sums() {
    of_all(checks::firefox::check);
}

#[test]
fn json_has_the_trace_and_its_timelines() {
    of_all(checks::json::check);
}
