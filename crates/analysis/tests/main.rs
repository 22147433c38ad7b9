//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

#[path = "../examples/big/trace.rs"]
mod big;
mod bursts;
mod clients;
mod commands;
mod cpu_starvation;
mod crowds;
mod databases;
mod diff;
mod ends_of_waits;
mod event_loops;
mod facts;
mod finding;
mod first_use;
mod gave_up;
mod group_limits;
mod holders;
mod in_progress;
mod input;
mod locks;
mod lod;
mod not_known;
mod partitions;
mod patterns;
mod pivots;
mod processes;
mod programs;
mod queues;
mod recorded;
mod scene;
mod tables;
mod unfinished;
