//! The golden traces, exported to `perf.data` and read back, have the same rows.

use crate::rows;
use crate::rows::{assert_same, bare_rows, round_trip};
use unhitch_model::Trace;

fn assert_comes_back(trace: &Trace) {
    let (read, exported) = round_trip(trace);
    assert_same(&rows::rows(trace), &rows::rows(&read));
    assert_eq!((exported.frames_left_out, exported.stacks_cut), (0, 0));
    assert!(exported.switches > 1_000);
}

/// Windows' addresses mean nothing to perf, and its threads have the names of their processes.
fn assert_comes_back_bare(trace: &Trace) {
    let (read, exported) = round_trip(trace);
    assert_same(&bare_rows(trace), &bare_rows(&read));
    assert!(exported.frames_left_out > 0 && exported.switches > 1_000);
}

fn as_linux<F>(golden: &unhitch_golden::Golden<F>) -> Trace {
    unhitch_formats::read_bytes(&golden.perf_data).unwrap()
}

fn as_windows<F>(golden: &unhitch_golden::Golden<F>) -> Trace {
    unhitch_formats::read_bytes(&golden.etl()).unwrap()
}

#[test]
fn type_an_email_comes_back() {
    let golden = unhitch_golden::type_an_email();
    assert_comes_back(&as_linux(&golden));
    assert_comes_back_bare(&as_windows(&golden));
}

#[test]
fn move_my_mouse_comes_back() {
    let golden = unhitch_golden::move_my_mouse();
    assert_comes_back(&as_linux(&golden));
    assert_comes_back_bare(&as_windows(&golden));
}

#[test]
fn sixty_three_cores_comes_back() {
    let golden = unhitch_golden::sixty_three_cores();
    assert_comes_back(&as_linux(&golden));
    assert_comes_back_bare(&as_windows(&golden));
}
