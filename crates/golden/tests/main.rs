//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

mod answers;
mod export;
mod move_my_mouse;
#[path = "../../formats/tests/rows/mod.rs"]
mod rows;
mod samples_only;
mod seen;
mod sixty_three_cores;
mod type_an_email;
mod windows_events;
