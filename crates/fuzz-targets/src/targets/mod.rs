//! [`TARGETS`], the one registry: adding a target is a function and a line, and a binary in
//! `fuzz/Cargo.toml`.

pub mod answers;
mod etl;
mod hitch;
mod perf_data;
mod symbols;
mod tracepoint;

/// A reader with the checks of what it read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// By which it is asked for, and its corpus is called.
    pub name: &'static str,
    /// Longer inputs are cut: what a reader does with few bytes it does with many, and slower.
    pub max_len: usize,
    /// So many bytes of memory an input of one byte may take, and so many any input.
    pub memory: (usize, usize),
    /// Reads the bytes.
    pub run: fn(&[u8]),
}

impl Target {
    /// How much memory an input of `len` bytes may take.
    pub const fn max_memory(&self, len: usize) -> usize {
        self.memory.0 * len + self.memory.1
    }

    /// The target of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().copied().find(|target| target.name == name)
    }
}

/// What docs/windows.md promises of a Windows trace; without the 128 MiB of a large one, which no
/// few kilobytes should take.
const ETL_MEMORY: (usize, usize) = (96, 16 << 20);
/// Texts become tables, of a few words per line.
const TEXT_MEMORY: (usize, usize) = (96, 64 << 10);
/// Traces: tables and indices of their own whatever they hold.
const TRACE_MEMORY: (usize, usize) = (256, 1 << 20);

macro_rules! targets {
    ($($constant:ident $name:literal $max_len:literal $memory:ident $run:path;)*) => {
        $(
            #[doc = concat!("The target `", $name, "`.")]
            pub const $constant: Target = Target { name: $name, max_len: $max_len, memory: $memory, run: $run };
        )*
        /// Every target, by name.
        pub const TARGETS: &[&Target] = &[$(&$constant),*];
    };
}

targets! {
    ANSWERS "answers" 4096 ANSWER_MEMORY answers::run;
    DEBUG_FILES "debug_files" 16384 FILE_MEMORY symbols::debug_files;
    DEMANGLE "demangle" 512 NAME_MEMORY symbols::demangle;
    DWARF "dwarf" 16384 FILE_MEMORY symbols::dwarf;
    ELF "elf" 8192 TRACE_MEMORY symbols::elf;
    ETL "etl" 8192 ETL_MEMORY etl::file;
    ETL_EVENTS "etl_events" 4096 ETL_MEMORY etl::events;
    ETL_MANIFEST "etl_manifest" 4096 TEXT_MEMORY etl::manifest;
    ETL_SCHEMA "etl_schema" 1024 TEXT_MEMORY etl::schema;
    HITCH "hitch" 8192 ZIP_MEMORY hitch::file;
    HITCH_PARTS "hitch_parts" 4096 ZIP_MEMORY hitch::parts;
    KALLSYMS "kallsyms" 2048 TEXT_MEMORY symbols::kallsyms;
    PDB "pdb" 16384 TRACE_MEMORY symbols::pdb;
    PERF_DATA "perf_data" 8192 PERF_MEMORY perf_data::file;
    PERF_MAP "perf_map" 2048 TEXT_MEMORY symbols::perf_map;
    PERF_RECORDS "perf_records" 4096 PERF_MEMORY perf_data::records;
    TRACEPOINT "tracepoint" 2048 TEXT_MEMORY tracepoint::run;
    WAIT_RULES "wait_rules" 2048 TRACE_MEMORY answers::wait_rules;
    XPRESS "xpress" 1024 TRACE_MEMORY etl::xpress;
}

/// Packed records may become 200 times as long.
const PERF_MEMORY: (usize, usize) = (1024, 2 << 20);
/// A zip of ours is read like what it holds; one of Windows traces may unpack to 32 MiB.
const ZIP_MEMORY: (usize, usize) = (1024, 64 << 20);
/// Explaining takes tables per thread, per CPU and per stack.
const ANSWER_MEMORY: (usize, usize) = (4096, 16 << 20);
/// Debug information is unpacked and indexed.
const FILE_MEMORY: (usize, usize) = (1024, 4 << 20);
/// Mangled names repeat their parts; how often is limited, though not by much (`MAX_MSVC_DIGITS`).
const NAME_MEMORY: (usize, usize) = (4096, 128 << 20);
