//! Hostile libraries: made by the compiler, then manipulated (ELF-64: elf(5)).

use rustix::fs::inotify;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHF_COMPRESSED: u64 = 0x800;

/// How to make the library.
pub struct Library<'a> {
    /// The name of the function that spins.
    pub function: &'a str,
    /// Number of other functions, each with its own lines: work for the reader.
    pub more_functions: usize,
    /// Assembly at the end of the file.
    pub assembly: &'a str,
    /// Additional compiler arguments.
    pub flags: &'a [&'a str],
}

impl Library<'_> {
    /// Compiles it to `path`, readable by everybody.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut source = format!(
            "__attribute__((visibility(\"default\"))) void {}(unsigned long n) {{ for (volatile unsigned long i = 0; i < n; i++); }}\n",
            self.function
        );
        for number in 0..self.more_functions {
            source += &format!(
                "int more{number}(int a) {{\n int b = a * {number};\n while (b > 7)\n  b -= a;\n return b;\n}}\n"
            );
        }
        source += self.assembly;
        let code = path.with_extension("c");
        fs::write(&code, source).map_err(|error| error.to_string())?;
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-fno-omit-frame-pointer", "-Wl,--build-id=none"])
            .args(self.flags);
        let output = compiler
            .arg("-o")
            .arg(path)
            .arg(&code)
            .output()
            .map_err(|error| format!("cc cannot be run: {error}"))?;
        let _ = fs::remove_file(code);
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

/// The section headers of a library in memory.
pub struct Sections {
    /// The file.
    pub bytes: Vec<u8>,
}

impl Sections {
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self { bytes: fs::read(path)? })
    }

    fn number(&self, at: usize, len: usize) -> u64 {
        self.bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn put(&mut self, at: usize, number: u64) {
        self.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }

    /// The offset of each header, and the name of its section.
    fn headers(&self) -> Vec<(usize, String)> {
        let table = self.number(0x28, 8) as usize;
        let at = |index: usize| table + 64 * index;
        let names = self.number(at(self.number(0x3e, 2) as usize) + 24, 8) as usize;
        let name = |header: usize| {
            let start = names + self.number(header, 4) as usize;
            let len = self.bytes[start..].iter().position(|&byte| byte == 0).unwrap_or(0);
            String::from_utf8_lossy(&self.bytes[start..start + len]).into_owned()
        };
        (0..self.number(0x3c, 2) as usize).map(|index| (at(index), name(at(index)))).collect()
    }

    /// Where the part that is not loaded starts: when truncated there, the code still runs.
    pub fn first_debug_byte(&self) -> u64 {
        let debug = self.headers().into_iter().filter(|(_, name)| name.starts_with(".debug_"));
        debug
            .map(|(header, _)| self.number(header + 24, 8))
            .min()
            .unwrap_or(self.bytes.len() as u64)
    }

    /// Sets the sizes of the symbol table, the names and the lines to `len` bytes each.
    pub fn claim(&mut self, len: u64) {
        for (header, name) in self.headers() {
            let kind = self.number(header + 4, 4) as u32;
            // The names of the sections themselves must stay.
            if (matches!(kind, SHT_SYMTAB | SHT_STRTAB) && name != ".shstrtab")
                || name.starts_with(".debug_")
            {
                self.put(header + 32, len);
            }
        }
    }

    /// Replaces the symbol names by `names`, at the end of the file.
    pub fn rename(&mut self, names: &[u8]) {
        let header = self.header(".strtab");
        self.put(header + 24, self.bytes.len() as u64);
        self.put(header + 32, names.len() as u64);
        self.bytes.extend_from_slice(names);
    }

    /// Replaces a section by `packed`, which unpacks to `len` bytes.
    pub fn compress(&mut self, section: &str, packed: &[u8], len: u64) {
        let header = self.header(section);
        let flags = self.number(header + 8, 8);
        self.put(header + 8, flags | SHF_COMPRESSED);
        self.put(header + 24, self.bytes.len() as u64);
        self.put(header + 32, 24 + packed.len() as u64);
        // Elf64_Chdr: zlib, reserved, length, alignment.
        for number in [1, len, 1] {
            self.bytes.extend(u64::to_le_bytes(number));
        }
        self.bytes.extend_from_slice(packed);
    }

    fn header(&self, section: &str) -> usize {
        self.headers()
            .into_iter()
            .find(|(_, name)| name == section)
            .map(|(header, _)| header)
            .expect("such a section")
    }
}

/// Writes `bytes` at the start of a file of length `len`; the rest is a hole.
pub fn write_sparse(path: &Path, bytes: &[u8], len: u64) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.set_len(len.max(bytes.len() as u64))
}

/// Truncates the file at `path` to `len` bytes whenever somebody has opened it, a little later each
/// time, and restores it with `tail`: a reader that compares its length and time before and after
/// notices nothing.
pub fn cut_and_restore(path: &Path, len: u64, tail: &[u8]) -> std::io::Result<()> {
    /// How long it stays truncated.
    const CUT: Duration = Duration::from_millis(10);
    let mut file = OpenOptions::new().write(true).open(path)?;
    let modified = file.metadata()?.modified()?;
    let watch = inotify::init(inotify::CreateFlags::empty())?;
    inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN)?;
    for turn in 0.. {
        rustix::io::read(&watch, &mut [0; 4096])?;
        std::thread::sleep(Duration::from_micros(turn * 1_700 % 25_000));
        file.set_len(len)?;
        std::thread::sleep(CUT);
        file.seek(SeekFrom::Start(len))?;
        file.write_all(tail)?;
        file.set_modified(modified)?;
    }
    Ok(())
}

/// A zlib stream (RFC 1950) of `mebibytes` MiB of zeros, about a thousandth of that long.
pub fn packed_zeros(mebibytes: u64) -> Vec<u8> {
    let mut stream = vec![0x78, 0xda];
    stream.extend(crate::bombs::deflated_zeros(mebibytes << 20));
    let adler = ((mebibytes << 20) % 65521) as u32;
    stream.extend((adler << 16 | 1).to_be_bytes());
    stream
}

/// C that pretends to be the interpreter of Python 3.12 (`pycore_runtime.h`, `pycore_frame.h`):
/// its threads and frames go in circles, its texts claim 2^60 bytes, and its code objects have
/// another name at each look.
pub const FALSE_PYTHON: &str = r#"
#include <pthread.h>
const unsigned long Py_Version = 0x030c01f0;
struct { long before[5]; void *first; } _PyRuntime = { { 1 }, 0 };
long PyCode_Type[8];
void _PyEval_EvalFrameDefault(void) {}
static volatile long interpreter[64], threads[2][64], c_frame[2], frames[2][16], code[64], text[8];
static void *rename_functions(void *unused) {
	for (;;) {
		frames[0][7] += 2;
		code[15] = (long)text + (code[15] + 8) % 4096;
	}
}
__attribute__((constructor)) static void pretend(void) {
	pthread_t beside;
	text[0] = 1;
	text[2] = text[3] = 1l << 60;
	text[4] = 1 << 2 | 1 << 5 | 1 << 6;
	code[1] = (long)PyCode_Type;
	for (int i = 14; i < 18; i++)
		code[i] = (long)text;
	for (int i = 0; i < 2; i++) {
		threads[i][1] = (long)threads[!i];
		threads[i][7] = (long)c_frame;
		frames[i][0] = (long)code;
		frames[i][1] = (long)frames[!i];
		frames[i][7] = (long)code + 192;
	}
	threads[1][17] = (long)pthread_self();
	c_frame[0] = (long)frames[0];
	interpreter[0] = (long)interpreter;
	interpreter[9] = (long)threads[0];
	_PyRuntime.first = (void *)interpreter;
	pthread_create(&beside, 0, rename_functions, 0);
}
"#;

/// Assembly that describes `hostile_spin` as `depth` functions inlined into each other, each being
/// its own abstract origin (DWARF 5, §3.3.8).
pub fn endless_dwarf(depth: usize) -> String {
    let line = |text: &str| format!("asm(\"{text}\");\n");
    let mut out = line(".section .debug_abbrev");
    // A unit with low_pc and high_pc; an inlined call with abstract_origin, low_pc and high_pc.
    out += &line(".byte 1,0x11,1, 0x11,1, 0x12,7, 0,0");
    out += &line(".byte 2,0x2e,1, 0x3,8, 0x11,1, 0x12,7, 0,0");
    out += &line(".byte 3,0x1d,1, 0x31,0x13, 0x11,1, 0x12,7, 0,0, 0");
    out += &line(".section .debug_info");
    out += &line("unit: .long 2f-1f");
    out += &line("1: .value 5; .byte 1,8; .long 0");
    out += &line(".byte 1; .quad hostile_spin, 64");
    out += &line(".byte 2; .asciz \\\"endless\\\"; .quad hostile_spin, 64");
    out +=
        &line(&format!(".rept {depth}; 3: .byte 3; .long 3b-unit; .quad hostile_spin, 64; .endr"));
    out += &line(&format!(".fill {}, 1, 0", depth + 2));
    out + &line("2: .text")
}
