//! [`PythonRuntime`]: the interpreter in a program's or a library's file.

use super::layout::PythonLayout;
use crate::exported::{Found, Table};
use crate::limited::{Image, Limited};
use object::{File, ReadRef};

/// The interpreter of a file. Addresses are relative to the file's lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PythonRuntime {
    /// `_PyRuntime`.
    pub runtime_svma: u64,
    /// The type of code objects.
    pub code_type_svma: u64,
    /// The interpreter's loop, `_PyEval_EvalFrameDefault`, and the part of it that is seldom
    /// executed: start and end; twice 0 if that is not known.
    pub eval_svmas: [[u64; 2]; 2],
    /// Where the fields of its structures are.
    pub layout: PythonLayout,
}

/// Symbols of every Python.
const RUNTIME: &[u8] = b"_PyRuntime";
const EVAL: &[u8] = b"_PyEval_EvalFrameDefault";
const CODE_TYPE: &[u8] = b"PyCode_Type";
/// Its version; from 3.11 on.
const VERSION: &[u8] = b"Py_Version";
/// Functions that came with 3.9 and 3.10.
const SINCE_3_9: &[u8] = b"PyObject_GC_IsTracked";
const SINCE_3_10: &[u8] = b"PyIter_Send";
/// The part of the loop that a compiler moved away, in files with all symbols.
const EVAL_COLD: &[u8] = b"_PyEval_EvalFrameDefault.cold";
/// Number of words of `_Py_DebugOffsets` that are looked at.
const DESCRIBED_WORDS: u64 = 71;
/// Words of an encoded runtime.
const WORDS: usize = 12;

impl PythonRuntime {
    /// As words, for [`decode`](Self::decode).
    pub(crate) fn encode(&self) -> [u64; WORDS] {
        let [[start, end], [cold_start, cold_end]] = self.eval_svmas;
        let mut words = [0; WORDS];
        words[..6].copy_from_slice(&[
            self.runtime_svma,
            self.code_type_svma,
            start,
            end,
            cold_start,
            cold_end,
        ]);
        for (index, number) in self.layout.to_numbers().into_iter().enumerate() {
            words[6 + index / 4] |= u64::from(number) << (index % 4 * 16);
        }
        words
    }

    /// Decodes what somebody else encoded; `None` if no Python is like that.
    pub(crate) fn decode(words: [u64; WORDS]) -> Option<Self> {
        let [runtime_svma, code_type_svma, start, end, cold_start, cold_end, packed @ ..] = words;
        let number = |index: usize| (packed[index / 4] >> (index % 4 * 16)) as u16;
        Some(Self {
            runtime_svma,
            code_type_svma,
            eval_svmas: [[start, end], [cold_start, cold_end]],
            layout: PythonLayout::from_numbers(std::array::from_fn(number))?,
        })
    }

    /// Decodes `words` of any length: `None` for another one than [`encode`](Self::encode) gives.
    pub(crate) fn decode_slice(words: &[u64]) -> Option<Self> {
        Self::decode(words.try_into().ok()?)
    }
}

/// The interpreter in the ELF file, if one is there and its version is known. `lowest` is the
/// file's lowest address; `file_offset` says where in `image` an address is.
pub(crate) fn read<'a, I: Image>(
    file: &File<'a, &'a Limited<I>>,
    lowest: u64,
    file_offset: impl Fn(u64) -> Option<u64>,
    image: &'a Limited<I>,
) -> Option<PythonRuntime> {
    let exported = Table::exported(file, EVAL)?;
    let runtime = exported.find(RUNTIME)?;
    let eval = exported.find(EVAL)?;
    let code_type = exported.find(CODE_TYPE)?;
    let read = |svma: u64, len: u64| image.read_bytes_at(file_offset(svma)?, len).ok();
    let version = exported.find(VERSION).and_then(|at| read(at.svma, 8)?.try_into().ok());
    let layout = match version.map(u64::from_le_bytes) {
        Some(version) if version >> 16 == 0x030d => {
            let (words, _) = read(runtime.svma, DESCRIBED_WORDS * 8)?.as_chunks::<8>();
            let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            PythonLayout::described(&words)?
        }
        Some(version) if version >> 24 == 3 => {
            PythonLayout::of_version((version >> 16) as u16 & 0xff)?
        }
        Some(_) => return None,
        None if exported.find(SINCE_3_10).is_some() => PythonLayout::of_version(10)?,
        None if exported.find(SINCE_3_9).is_some() => PythonLayout::of_version(9)?,
        None => return None,
    };
    let cold = || Table::all(file, EVAL)?.find(EVAL_COLD);
    let range = |found: Option<Found>| {
        let found = found.unwrap_or_default();
        let start = found.svma.saturating_sub(lowest);
        if found.svma == 0 { [0; 2] } else { [start, start.saturating_add(found.len)] }
    };
    Some(PythonRuntime {
        runtime_svma: runtime.svma.checked_sub(lowest)?,
        code_type_svma: code_type.svma.checked_sub(lowest)?,
        eval_svmas: [range(Some(eval)), range(cold())],
        layout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_survives_a_round_trip_and_a_bad_one_is_refused() {
        let runtime = PythonRuntime {
            runtime_svma: 1,
            code_type_svma: 2,
            eval_svmas: [[3, 4], [0, 0]],
            layout: PythonLayout::of_version(11).unwrap(),
        };
        let words = runtime.encode();
        assert_eq!(PythonRuntime::decode(words), Some(runtime));
        assert_eq!(PythonRuntime::decode_slice(&words[1..]), None);
        assert_eq!(PythonRuntime::decode([u64::MAX; WORDS]), None);
    }
}
