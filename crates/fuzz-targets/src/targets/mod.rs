//! [`TARGETS`], the registry. A new target needs a function, a line here, and a binary in
//! `fuzz/Cargo.toml`.

pub mod answers;
mod etl;
mod hitch;
mod import;
mod perf_data;
mod rings;
mod symbols;
mod tracepoint;

/// A reader with checks of what it read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Maximum length of an input, bytes. Longer ones are cut, because many bytes reach no more
    /// code than few, only slower.
    pub max_len: usize,
    /// Maximum memory, bytes: per byte of input, and a base for any input.
    pub memory: (usize, usize),
    /// Reads the bytes.
    pub run: fn(&[u8]),
}

impl Target {
    /// Maximum memory for an input of `len` bytes, bytes.
    pub const fn max_memory(&self, len: usize) -> usize {
        self.memory.0 * len + self.memory.1
    }

    /// The target of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().copied().find(|target| target.name == name)
    }
}

/// The limit in docs/windows.md for a Windows trace, without the 128 MiB for large ones, which a
/// few kilobytes should not take.
const ETL_MEMORY: (usize, usize) = (96, 16 << 20);
/// Texts become tables with a few words per line.
const TEXT_MEMORY: (usize, usize) = (96, 64 << 10);
/// Every trace has some tables and indices, whatever it contains.
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
    CTF "ctf" 8192 IMPORT_MEMORY import::ctf;
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
    MINI_DEBUG_INFO "mini_debug_info" 4096 UNPACKED_MEMORY symbols::mini_debug_info;
    PDB "pdb" 16384 TRACE_MEMORY symbols::pdb;
    PERF_DATA "perf_data" 8192 PERF_MEMORY perf_data::file;
    PERF_MAP "perf_map" 2048 TEXT_MEMORY symbols::perf_map;
    PERF_RECORDS "perf_records" 4096 PERF_MEMORY perf_data::records;
    PERF_SCRIPT "perf_script" 4096 IMPORT_MEMORY import::perf_script;
    PERFETTO "perfetto" 8192 IMPORT_MEMORY import::perfetto;
    RING_RECORDS "ring_records" 4096 RING_MEMORY rings::records;
    RINGS "rings" 4096 RING_MEMORY rings::member;
    TRACEPOINT "tracepoint" 2048 TEXT_MEMORY tracepoint::run;
    TRACE_DAT "trace_dat" 16384 IMPORT_MEMORY import::trace_dat;
    WAIT_RULES "wait_rules" 2048 TRACE_MEMORY answers::wait_rules;
    XPRESS "xpress" 1024 TRACE_MEMORY etl::xpress;
}

/// Compressed records may expand 200 times.
const PERF_MEMORY: (usize, usize) = (1024, 2 << 20);
/// A switch of four bytes becomes a row.
const RING_MEMORY: (usize, usize) = (1024, 4 << 20);
/// Compressed parts may expand 64 times, or to 4 MiB, and events of a few bytes become rows.
const IMPORT_MEMORY: (usize, usize) = (4096, 96 << 20);
/// A container is read like its content; a zip of Windows traces may unpack to 32 MiB.
const ZIP_MEMORY: (usize, usize) = (1024, 64 << 20);
/// Explaining needs tables per thread, per CPU and per stack.
const ANSWER_MEMORY: (usize, usize) = (4096, 16 << 20);
/// A packed symbol table may unpack to 32 MiB, by a dictionary of the same length, into a buffer
/// that grows.
const UNPACKED_MEMORY: (usize, usize) = (1024, 160 << 20);
/// Debug information is unpacked and indexed.
const FILE_MEMORY: (usize, usize) = (1024, 4 << 20);
/// Mangled names repeat their parts. How often is limited, but not tightly (`MAX_MSVC_DIGITS`).
const NAME_MEMORY: (usize, usize) = (4096, 128 << 20);
