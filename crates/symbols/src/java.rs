//! What must be known of HotSpot, the Java virtual machine, to go through the frames of its threads
//! and to name their methods, also those that it interprets, without its help.
//!
//! Source: the tables `gHotSpotVMStructs` and `gHotSpotVMTypes` of `libjvm.so`, by which HotSpot tells
//! debuggers where the fields of its structures are. So no version is known here; one in which a field
//! is missing is left alone. Tried with 17 and 25. The tables are searched in the file, where nothing
//! can be broken; the offsets in them are only set when HotSpot starts, so it is said where they are
//! ([`FieldOffset`]).

use crate::exported::Table;
use crate::limited::{Image, Limited};
use object::{File, Object, ObjectSection, ReadRef};
use rustc_hash::FxHashMap;

/// The pointers to the tables.
const STRUCTS: &[u8] = b"gHotSpotVMStructs";
const TYPES: &[u8] = b"gHotSpotVMTypes";
/// `VMStructEntry`: the names of type and field, the field's offset or the variable's address; and its
/// size.
const STRUCT_TYPE: u64 = 0;
const STRUCT_FIELD: u64 = 8;
const STRUCT_OFFSET: u64 = 32;
const STRUCT_ADDRESS: u64 = 40;
const STRUCT_BYTES: u64 = 48;
/// `VMTypeEntry`: the type's name and size; and the entry's size.
const TYPE_NAME: u64 = 0;
const TYPE_SIZE: u64 = 32;
const TYPE_BYTES: u64 = 40;
/// Maximum number of entries of a table. HotSpot 17 has 788.
const MAX_ENTRIES: usize = 8192;
/// Maximum number of relocations of a file that are looked at. HotSpot 25 has 125,000.
const MAX_RELOCATIONS: usize = 1 << 20;
/// `R_X86_64_RELATIVE`: a pointer into the file itself.
const RELATIVE: u64 = 8;
/// Maximum length of the name of a type or a field.
const MAX_NAME: usize = 64;

/// A field of a structure, or the size of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// `StubQueue`, the interpreter: where its code begins (pointer), and its length (32 bits).
    InterpreterStart,
    /// See `InterpreterStart`.
    InterpreterBytes,
    /// `GrowableArray`: its length (32 bits), and the pointer to what it holds.
    ArrayLen,
    /// See `ArrayLen`.
    ArrayData,
    /// `CodeHeap`: its memory and its map of segments (each a `VirtualSpace`), and the logarithm of
    /// the segments' size (32 bits).
    HeapMemory,
    /// See `HeapMemory`.
    HeapMap,
    /// See `HeapMemory`.
    HeapSegmentBits,
    /// `VirtualSpace`: where it begins and ends (pointers).
    SpaceLow,
    /// See `SpaceLow`.
    SpaceHigh,
    /// Size of the header of a block in a `CodeHeap`.
    BlockHeaderSize,
    /// `CodeBlob`: the pointer to what kind of code it is, and the size of its frames in words
    /// (32 bits).
    BlobName,
    /// See `BlobName`.
    BlobFrameWords,
    /// `nmethod`, a compiled method: its `Method*`.
    CompiledMethod,
    /// `Method`: its `ConstMethod*`.
    MethodConst,
    /// `ConstMethod`: its `ConstantPool*`, and the index of its name there (16 bits).
    ConstPool,
    /// See `ConstPool`.
    ConstName,
    /// Size of a `ConstantPool` without its entries, and the pointer to its class.
    PoolSize,
    /// See `PoolSize`.
    PoolClass,
    /// `Klass`: its name, a `Symbol*`.
    ClassName,
    /// `Symbol`: its length (16 bits), and where its text begins.
    SymbolLen,
    /// See `SymbolLen`.
    SymbolText,
}

/// Number of fields.
pub const FIELDS: usize = Field::SymbolText as usize + 1;

/// What HotSpot calls each field; without a field, the size of the type.
const NAMES: [(&str, &str, Field); FIELDS + 2] = [
    ("StubQueue", "_stub_buffer", Field::InterpreterStart),
    ("StubQueue", "_buffer_limit", Field::InterpreterBytes),
    // Up to 16, then.
    ("GenericGrowableArray", "_len", Field::ArrayLen),
    ("GrowableArrayBase", "_len", Field::ArrayLen),
    ("GrowableArray<int>", "_data", Field::ArrayData),
    ("CodeHeap", "_memory", Field::HeapMemory),
    ("CodeHeap", "_segmap", Field::HeapMap),
    ("CodeHeap", "_log2_segment_size", Field::HeapSegmentBits),
    ("VirtualSpace", "_low_boundary", Field::SpaceLow),
    ("VirtualSpace", "_high_boundary", Field::SpaceHigh),
    ("HeapBlock", "", Field::BlockHeaderSize),
    ("CodeBlob", "_name", Field::BlobName),
    ("CodeBlob", "_frame_size", Field::BlobFrameWords),
    // Up to 22, then.
    ("CompiledMethod", "_method", Field::CompiledMethod),
    ("nmethod", "_method", Field::CompiledMethod),
    ("Method", "_constMethod", Field::MethodConst),
    ("ConstMethod", "_constants", Field::ConstPool),
    ("ConstMethod", "_name_index", Field::ConstName),
    ("ConstantPool", "", Field::PoolSize),
    ("ConstantPool", "_pool_holder", Field::PoolClass),
    ("Klass", "_name", Field::ClassName),
    ("Symbol", "_length", Field::SymbolLen),
    ("Symbol", "_body", Field::SymbolText),
];
/// The variables that lead to the interpreter and to the heaps of compiled code.
const INTERPRETER: (&str, &str) = ("AbstractInterpreter", "_code");
const HEAPS: (&str, &str) = ("CodeCache", "_heaps");

/// Words of an encoded runtime.
const WORDS: usize = 2 + FIELDS;
/// Numbers from here on are addresses, below it sizes: a file has its headers there.
const LOWEST_SVMA: u64 = 1024;

/// Where a field is in its structure, in bytes; or how large the structure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldOffset {
    /// As the file says.
    Known(u16),
    /// As the process says at this address, relative to the file's lowest.
    At(u64),
}

/// The Java virtual machine of a file. Addresses are relative to the file's lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JavaRuntime {
    /// The pointer to the interpreter, a `StubQueue`.
    pub interpreter_svma: u64,
    /// The pointer to the heaps of code, a `GrowableArray` of `CodeHeap*`.
    pub heaps_svma: u64,
    /// The sizes, and where the offsets are.
    fields: [u64; FIELDS],
}

impl JavaRuntime {
    /// Where each field is, in the order of [`Field`].
    pub fn offsets(&self) -> [FieldOffset; FIELDS] {
        self.fields.map(|number| match u16::try_from(number) {
            Ok(size) if number < LOWEST_SVMA => FieldOffset::Known(size),
            _ => FieldOffset::At(number),
        })
    }

    /// As words, for [`decode_slice`](Self::decode_slice).
    pub(crate) fn encode(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        [words[0], words[1]] = [self.interpreter_svma, self.heaps_svma];
        words[2..].copy_from_slice(&self.fields);
        words
    }

    /// Decodes what somebody else encoded; `None` for words of another number.
    pub(crate) fn decode_slice(words: &[u64]) -> Option<Self> {
        let words: [u64; WORDS] = words.try_into().ok()?;
        let [interpreter_svma, heaps_svma, fields @ ..] = words;
        Some(Self { interpreter_svma, heaps_svma, fields })
    }
}

/// What a method is called, in the form that Java's own tools use, by the internal name of its class
/// and its own.
pub fn method_name(class: &str, method: &str) -> String {
    // Classes that the virtual machine made have an address in their name, which differs from run to
    // run.
    let class = class.split_once("+0x").map_or(class, |(class, _)| class);
    format!("{}.{method}", class.replace('/', "."))
}

/// The virtual machine in the ELF file, if one is there and tells what is wanted. `lowest` is the
/// file's lowest address; `file_offset` says where in `image` an address is.
pub(crate) fn read<'a, I: Image>(
    file: &File<'a, &'a Limited<I>>,
    lowest: u64,
    file_offset: impl Fn(u64) -> Option<u64>,
    image: &'a Limited<I>,
) -> Option<JavaRuntime> {
    let exported = Table::exported(file, STRUCTS)?;
    let data = Data { relocated: relocated(file)?, file_offset, image };
    let variable = |name: &[u8]| data.word(exported.find(name)?.svma);
    let structs = Entries { first: variable(STRUCTS)?, bytes: STRUCT_BYTES, name: STRUCT_TYPE };
    let types = Entries { first: variable(TYPES)?, bytes: TYPE_BYTES, name: TYPE_NAME };

    let mut fields = [None; FIELDS];
    let mut set = |type_name: &[u8], field: &[u8], value: u64| {
        let is_it = |(wanted, of, _): &&(&str, &str, Field)| {
            wanted.as_bytes() == type_name && of.as_bytes() == field
        };
        if let Some((.., which)) = NAMES.iter().find(is_it) {
            fields[*which as usize].get_or_insert(value);
        }
    };
    let (mut interpreter, mut heaps) = (None, None);
    for (entry, type_name) in structs.iter(&data) {
        let Some(field) = data.word(entry.wrapping_add(STRUCT_FIELD)).and_then(|at| data.text(at))
        else {
            continue;
        };
        let is = |(of, name): (&str, &str)| of.as_bytes() == type_name && name.as_bytes() == field;
        let variable = || data.word(entry.wrapping_add(STRUCT_ADDRESS))?.checked_sub(lowest);
        if is(INTERPRETER) {
            interpreter = variable();
        } else if is(HEAPS) {
            heaps = variable();
        } else if let Some(svma) = entry.wrapping_add(STRUCT_OFFSET).checked_sub(lowest) {
            set(type_name, field, svma);
        }
    }
    for (entry, type_name) in types.iter(&data) {
        let size = data.word(entry.wrapping_add(TYPE_SIZE));
        if let Some(size) = size.filter(|size| *size < LOWEST_SVMA) {
            set(type_name, b"", size);
        }
    }
    let mut found = [0; FIELDS];
    for (to, from) in found.iter_mut().zip(fields) {
        *to = from?;
    }
    Some(JavaRuntime { interpreter_svma: interpreter?, heaps_svma: heaps?, fields: found })
}

/// The entries of a table; the last one has no name.
struct Entries {
    first: u64,
    bytes: u64,
    /// Where the pointer to the type's name is in an entry.
    name: u64,
}

impl Entries {
    /// The address of each entry, and the name of its type.
    fn iter<'a, I: Image, F: Fn(u64) -> Option<u64>>(
        &self,
        data: &Data<'a, I, F>,
    ) -> impl Iterator<Item = (u64, &'a [u8])> {
        let entry =
            move |index: usize| self.first.wrapping_add(self.bytes.wrapping_mul(index as u64));
        (0..MAX_ENTRIES).map(entry).map_while(move |entry| {
            let name = data.word(entry.wrapping_add(self.name))?;
            Some((entry, data.text(name)?))
        })
    }
}

/// The file's data as they are after it was loaded.
struct Data<'a, I: Image, F> {
    relocated: FxHashMap<u64, u64>,
    file_offset: F,
    image: &'a Limited<I>,
}

impl<'a, I: Image, F: Fn(u64) -> Option<u64>> Data<'a, I, F> {
    fn word(&self, svma: u64) -> Option<u64> {
        if let Some(pointer) = self.relocated.get(&svma) {
            return Some(*pointer);
        }
        let bytes = self.image.read_bytes_at((self.file_offset)(svma)?, 8).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A text; `None` for a pointer to nothing, which is the last entry's.
    fn text(&self, svma: u64) -> Option<&'a [u8]> {
        if svma == 0 {
            return None;
        }
        let bytes = self.image.read_bytes_at((self.file_offset)(svma)?, MAX_NAME as u64).ok()?;
        bytes.split(|byte| *byte == 0).next()
    }
}

/// The file's pointers into itself, by where they are.
fn relocated<'a, I: Image>(file: &File<'a, &'a Limited<I>>) -> Option<FxHashMap<u64, u64>> {
    const ENTRY: usize = 24;
    let entries = file.section_by_name(".rela.dyn")?.data().ok()?.as_chunks::<ENTRY>().0;
    let pointer = |entry: &[u8; ENTRY]| {
        let word =
            |at: usize| u64::from_le_bytes(entry[at..].first_chunk().copied().unwrap_or_default());
        (word(8) == RELATIVE).then(|| (word(0), word(16)))
    };
    Some(entries.iter().take(MAX_RELOCATIONS).filter_map(pointer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_survives_a_round_trip() {
        let fields = std::array::from_fn(|index| index as u64 * 100);
        let runtime = JavaRuntime { interpreter_svma: 1, heaps_svma: 2, fields };
        let words = runtime.encode();
        assert_eq!(JavaRuntime::decode_slice(&words), Some(runtime));
        assert_eq!(JavaRuntime::decode_slice(&words[1..]), None);
        let offsets = runtime.offsets();
        assert_eq!(offsets[Field::BlobName as usize], FieldOffset::Known(1000));
        assert_eq!(offsets[Field::BlobFrameWords as usize], FieldOffset::At(1100));
    }

    #[test]
    fn names_are_those_of_javas_tools() {
        for (class, method, name) in [
            (
                "java/util/concurrent/locks/LockSupport",
                "park",
                "java.util.concurrent.locks.LockSupport.park",
            ),
            ("Hangs$$Lambda$14+0x0000000800c03000", "run", "Hangs$$Lambda$14.run"),
            ("Hangs", "<init>", "Hangs.<init>"),
        ] {
            assert_eq!(method_name(class, method), name);
        }
    }
}
