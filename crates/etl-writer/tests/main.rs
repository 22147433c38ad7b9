//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

mod methods;
mod rare;
mod read;
