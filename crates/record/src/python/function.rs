//! Reads the name, the file and the lines of a code object.

use super::process::Python;
use crate::memory::Memory;
use std::io;
use unhitch_formats::scripts::{ScriptFunction, id_of_code};
use unhitch_symbols::python::lines;

/// Maximum length of a name, and of a path, in characters: what follows is left out.
const MAX_NAME: u64 = 1024;
/// Maximum length of a line table in bytes: instructions after that have its last line.
const MAX_LINE_TABLE: u64 = 32 << 10;

/// Reads the functions of code objects, by id and address. Those that are gone are left out.
pub(crate) fn read(pid: u32, python: &Python, codes: &[(u64, u64)]) -> Vec<ScriptFunction> {
    let Ok(memory) = Memory::open(pid) else { return Vec::new() };
    let reader = Reader { memory: &memory, python };
    codes.iter().filter_map(|&(id, code_avma)| reader.function(id, code_avma).ok()).collect()
}

struct Reader<'a> {
    memory: &'a Memory,
    python: &'a Python,
}

impl Reader<'_> {
    fn function(&self, id: u64, code_avma: u64) -> io::Result<ScriptFunction> {
        let layout = self.python.layout();
        let is_code = || -> io::Result<bool> {
            Ok(self.word(code_avma, layout.object_type)? == self.python.code_type_avma())
        };
        let names = self.names(code_avma)?;
        if !is_code()? || id_of_code(code_avma, names) != id {
            return Err(io::ErrorKind::NotFound.into());
        }
        let [file, name, rest @ ..] = names;
        // From 3.11 on a qualified name comes before the line table.
        let [name, table] = if layout.names_len() == 4 { rest } else { [name, rest[0]] };
        let first_line = self.word(code_avma, layout.first_line & !7)?;
        let first_line = (first_line >> (layout.first_line % 8 * 8)) as u32;
        let table = self.bytes(table)?;
        let function = ScriptFunction {
            id,
            name: self.string(name)?,
            file: self.string(file)?,
            first_line: if first_line.cast_signed() < 0 { 0 } else { first_line },
            lines: lines(layout.minor, first_line, &table),
        };
        // What it points to may have been freed meanwhile.
        let is_same = is_code()? && self.names(code_avma)? == names;
        if is_same { Ok(function) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn names(&self, code_avma: u64) -> io::Result<[u64; 4]> {
        let layout = self.python.layout();
        let mut names = [0; 4];
        for (index, name) in names.iter_mut().enumerate().take(layout.names_len()) {
            *name = self.word(code_avma, layout.names + index as u16 * 8)?;
        }
        Ok(names)
    }

    fn string(&self, avma: u64) -> io::Result<String> {
        let layout = self.python.layout();
        let len = self.word(avma, layout.string_length)?.min(MAX_NAME) as usize;
        let state = self.word(avma, layout.string_state)?;
        let (width, is_compact, is_ascii) =
            ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if !is_compact || !matches!(width, 1 | 2 | 4) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let wide = if is_ascii { 0 } else { layout.string_wide() };
        let start = avma.wrapping_add(u64::from(layout.string_start) + u64::from(wide));
        let bytes = self.read(start, len * width)?;
        let character = |bytes: &[u8]| {
            let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Ok(bytes.chunks_exact(width).map(character).collect())
    }

    fn bytes(&self, avma: u64) -> io::Result<Vec<u8>> {
        let layout = self.python.layout();
        let len = self.word(avma, layout.bytes_length)?.min(MAX_LINE_TABLE) as usize;
        self.read(avma.wrapping_add(u64::from(layout.bytes_start)), len)
    }

    fn word(&self, avma: u64, offset: u16) -> io::Result<u64> {
        let mut word = [0; 8];
        self.memory.read(&mut word, avma.wrapping_add(u64::from(offset)))?;
        Ok(u64::from_ne_bytes(word))
    }

    fn read(&self, avma: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut at = avma;
        for part in bytes.chunks_mut(crate::sys::page_size()) {
            self.memory.read(part, at)?;
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(bytes)
    }
}
