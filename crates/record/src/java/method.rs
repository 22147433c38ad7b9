//! The names of methods.

use super::process::{Java, MethodPlace};
use crate::memory::Memory;
use unhitch_formats::scripts::ScriptFunction;
use unhitch_symbols::java::{Field, method_name};

/// `struct method_hint` of `java.h`: where its parts are, and the room for its texts.
const ID_AT: usize = 8;
const LENGTHS_AT: usize = 16;
const CLASS_AT: usize = 24;
const MAX_CLASS_NAME: usize = 192;
const MAX_METHOD_NAME: usize = 64;
/// What code is called that is no method and whose name cannot be read.
const STUB: &[u8] = b"JVM stub";

/// What the kernel's part tells of a method; `None` if that is not whole.
pub(crate) fn told(hint: &[u8]) -> Option<ScriptFunction> {
    let id = u64::from_ne_bytes(hint.get(ID_AT..ID_AT + 8)?.try_into().ok()?);
    let len =
        |at: usize| Some(usize::from(u16::from_ne_bytes(hint.get(at..at + 2)?.try_into().ok()?)));
    let text = |at: usize, len: usize, room: usize| hint.get(at..at + len.min(room));
    let class = text(CLASS_AT, len(LENGTHS_AT)?, MAX_CLASS_NAME)?;
    let method = text(CLASS_AT + MAX_CLASS_NAME, len(LENGTHS_AT + 2)?, MAX_METHOD_NAME)?;
    Some(function(id, class, method))
}

fn function(id: u64, class: &[u8], method: &[u8]) -> ScriptFunction {
    let [class, method] = [class, method].map(String::from_utf8_lossy);
    let name = if class.is_empty() { method.into_owned() } else { method_name(&class, &method) };
    ScriptFunction { id, name, ..ScriptFunction::default() }
}

/// Reads the names of methods of a process. Those that cannot be read are left out.
pub(crate) fn read(pid: u32, java: &Java, methods: &[(u64, MethodPlace)]) -> Vec<ScriptFunction> {
    let Ok(memory) = Memory::with_local_files(pid) else { return Vec::new() };
    let names = Names { memory: &memory, java };
    methods.iter().filter_map(|&(id, place)| names.function(id, place)).collect()
}

struct Names<'a> {
    memory: &'a Memory,
    java: &'a Java,
}

impl Names<'_> {
    fn function(&self, id: u64, place: MethodPlace) -> Option<ScriptFunction> {
        match place {
            MethodPlace::Stub { name } => {
                let text = self.bytes(name, MAX_METHOD_NAME);
                let text = text.as_deref().and_then(|text| text.split(|byte| *byte == 0).next());
                Some(function(id, b"", text.unwrap_or(STUB)))
            }
            MethodPlace::Method { pool, name_index } => {
                let size = self.offset(Field::PoolSize);
                let entry = pool.wrapping_add(size).wrapping_add(u64::from(name_index) * 8);
                let method = self.symbol(self.word(entry)?, MAX_METHOD_NAME)?;
                let class = self.field(pool, Field::PoolClass)?;
                let class = self.symbol(self.field(class, Field::ClassName)?, MAX_CLASS_NAME)?;
                Some(function(id, &class, &method))
            }
        }
    }

    fn offset(&self, field: Field) -> u64 {
        self.java.offsets().of(field)
    }

    fn field(&self, base: u64, field: Field) -> Option<u64> {
        self.word(base.wrapping_add(self.offset(field)))
    }

    fn word(&self, avma: u64) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(avma, 8)?.try_into().ok()?))
    }

    fn symbol(&self, symbol: u64, max: usize) -> Option<Vec<u8>> {
        let len = self.bytes(symbol.wrapping_add(self.offset(Field::SymbolLen)), 2)?;
        let len = usize::from(u16::from_ne_bytes(len.try_into().ok()?));
        self.bytes(symbol.wrapping_add(self.offset(Field::SymbolText)), len.min(max))
    }

    fn bytes(&self, avma: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len.max(1)];
        self.memory.read(&mut bytes, avma).ok()?;
        bytes.truncate(len);
        Some(bytes)
    }
}
