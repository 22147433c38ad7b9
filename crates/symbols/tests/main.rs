//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

#[cfg(target_os = "linux")]
mod code;
#[cfg(target_os = "linux")]
mod damage;
#[cfg(target_os = "linux")]
mod debuginfod;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod own_binary;
mod pdb;
mod server;
mod server_support;
#[cfg(target_os = "linux")]
mod stripped;
mod support;
