//! All tests of this crate's interface, in one program: a program for each file would take minutes
//! to link.

mod container;
mod container_damage;
mod damage;
mod etl;
mod etl_baseline;
mod etl_support;
mod etl_synthetic;
mod export;
mod growing;
mod imports;
mod properties;
mod round_trip;
mod rows;
mod synthetic;
