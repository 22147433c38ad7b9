//! Traces of other tools: what they hold becomes rows, and what they lack is said.

mod ctf;
mod hostile;
mod lttng;
mod perf_script;
mod perfetto;
mod proto;
mod rows;
mod trace_dat;
mod trace_dat_writer;
