//! Golden traces: three famous investigations as synthetic recordings with exactly their figures.
//!
//! Unhitch must be able to explain the hangs in Bruce Dawson's posts of 2017–2019 on mostly idle
//! Windows machines by itself. Their traces are not public, so this crate writes traces that show
//! the same: [`type_an_email()`] (a starved lock), [`move_my_mouse()`] (a saturated lock),
//! [`sixty_three_cores()`] (one long hold). *Why code*: a generator can be read and discussed, and
//! the files are too large to keep. The function names are those of the posts; they are only names.
//!
//! A [`Machine`] can also be described elsewhere: the tests of a fleet (`python/synthetic`) do.
//!
//! Each trace comes with the figures that an answer must have. They are counted in the written
//! events, never copied from the posts.

mod code;
mod etl;
mod golden;
mod machine;
mod move_my_mouse;
mod perf_data;
mod sixty_three_cores;
mod split_mix64;
mod type_an_email;

pub use code::{Code, Stack};
pub use golden::Golden;
pub use machine::{Left, Machine, Phase, Thread};
pub use move_my_mouse::{MouseFigures, move_my_mouse};
pub use sixty_three_cores::{BuildFigures, LOOP_OFFSETS, sixty_three_cores};
pub use split_mix64::SplitMix64;
pub use type_an_email::{TypeFigures, type_an_email};
