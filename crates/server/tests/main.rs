//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

mod diff;
mod fleet;
mod folder;
mod newest;
mod routes;
mod security;
mod support;
