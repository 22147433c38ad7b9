//! Golden traces: three famous investigations as made-up recordings with exactly their figures.
//!
//! Bruce Dawson's posts of 2017–2019 on hangs of mostly idle Windows machines are what Unhitch must
//! be able to answer by itself. Their traces are not public, so this crate writes traces in which
//! the same can be seen: [`type_an_email`] (a starved lock), [`move_my_mouse`] (a saturated lock),
//! [`sixty_three_cores`] (one long holder). They are code, because a generator can be read and
//! argued with, and because the files are too large to keep. Names of functions are those of the
//! posts; they are only names.
//!
//! What an answer must say stands beside each trace as figures, counted in the events that were
//! written, never copied from the posts.

mod code;
mod etl;
mod golden;
mod machine;
mod move_my_mouse;
mod perf_data;
mod sixty_three_cores;
mod split_mix64;
mod type_an_email;

pub use golden::Golden;
pub use move_my_mouse::{MouseFigures, move_my_mouse};
pub use sixty_three_cores::{BuildFigures, LOOP_OFFSETS, sixty_three_cores};
pub use type_an_email::{TypeFigures, type_an_email};
