//! Programs that hang on purpose, each with a known answer, to test recording and analysis on real
//! hangs.
//!
//! [`PROGRAMS`] is the registry. Each program is a small play: a few named threads (`stage.rs`),
//! normal operation before and after, and the hang in the middle. The victim and the culprit are
//! known in advance ([`Answer`]), and the program measures what happened with its own clock
//! ([`Measured`]). So the analysis can be compared with something that was not derived from the
//! recording.
//!
//! A program sets the name of its process (the thread-group leader), so it needs its own process,
//! and must be called on its first thread.
//!
//! *Why so many functions are never inlined:* system-wide recordings follow frame pointers, and a
//! stack without the functions of the story tests nothing. A C library without frame pointers hides
//! the function that called it, hence the thin `call_…` functions in `sys.rs`: they are there to be
//! hidden.
//!
//! # Example
//!
//! ```
//! let starve = unhitch_lab::program("starve").unwrap();
//! assert_eq!((starve.answer)().pattern, "lock_starvation");
//! ```

mod address_space;
pub mod bitmap;
mod build_stall;
mod chain;
mod convoy;
mod exit_storm;
pub mod fairness;
mod idle_holder;
mod long_hold;
mod loop_stall;
mod options;
mod outcome;
mod populate;
mod program;
mod saturate;
mod scan_stall;
pub mod search;
mod slow_disk;
mod span;
mod stage;
mod starve;
mod stopped;
#[allow(unsafe_code)]
mod sys;
mod tcp;
mod ticker;
mod work;

pub use address_space::{AddressSpace, LAYOUTS, Layout};
pub use options::Options;
pub use outcome::{Answer, Measured, Outcome};
pub use program::Program;
pub use span::Span;

/// All programs, sorted by name.
pub const PROGRAMS: &[Program] = &[
    build_stall::PROGRAM,
    chain::PROGRAM,
    convoy::PROGRAM,
    exit_storm::PROGRAM,
    idle_holder::PROGRAM,
    long_hold::PROGRAM,
    loop_stall::PROGRAM,
    populate::PROGRAM,
    saturate::PROGRAM,
    scan_stall::PROGRAM,
    slow_disk::PROGRAM,
    starve::PROGRAM,
    stopped::PROGRAM,
    tcp::PROGRAM,
];

/// Finds a program by its name.
pub fn program(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn registry_is_sorted_and_names_are_unique() {
        assert!(PROGRAMS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(program("starve").map(|program| program.name), Some("starve"));
        assert!(program("stave").is_none());
    }

    #[test]
    fn names_fit_the_kernels_fifteen_bytes() {
        for program in PROGRAMS {
            let answer = (program.answer)();
            let own = format!("lab-{}", program.name);
            let names = [
                &own,
                &answer.victim_process,
                &answer.victim_thread,
                &answer.culprit_process,
                &answer.culprit_thread,
            ];
            for name in names.into_iter().chain(&answer.also_named) {
                assert!(name.len() <= 15, "{name}");
            }
        }
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for seconds in [0.0, 2.9, 61.0, f64::NAN, f64::INFINITY] {
            let error = (PROGRAMS[0].run)(&Options { seconds, ..Options::default() }).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
