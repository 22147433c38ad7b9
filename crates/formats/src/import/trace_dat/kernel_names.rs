//! Names of the kernel's functions, from the copy of `/proc/kallsyms` that comes with a trace.

/// Functions by address.
pub(in crate::import) struct KernelNames<'a> {
    /// Address, and where the name lies in the text.
    functions: Vec<(u64, u32, u16)>,
    text: &'a [u8],
}

impl<'a> KernelNames<'a> {
    /// Reads the text. Where the kernel hides its addresses, all are 0, and nothing has a name.
    pub fn new(text: &'a [u8]) -> Self {
        let mut functions = Vec::new();
        let mut at = 0;
        for line in text.split(|byte| *byte == b'\n') {
            functions.extend(function(line).map(|(avma, from, len)| (avma, at + from, len)));
            at = at.saturating_add(line.len() as u32 + 1);
        }
        functions.sort_by_key(|function| function.0);
        Self { functions, text }
    }

    /// The function at an address.
    pub fn at(&self, avma: u64) -> Option<&'a str> {
        let after = self.functions.partition_point(|function| function.0 <= avma);
        let (_, from, len) = *self.functions.get(after.checked_sub(1)?)?;
        let from = from as usize;
        std::str::from_utf8(self.text.get(from..from + usize::from(len))?).ok()
    }
}

/// The address of a line's function, and where its name is in the line.
fn function(line: &[u8]) -> Option<(u64, u32, u16)> {
    /// Maximum length of a name, bytes. The kernel's have at most 512.
    const MAX_LEN: usize = 1024;
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (address, kind, rest) = (parts.next()?, parts.next()?, parts.next()?);
    if !matches!(kind, b"t" | b"T" | b"w" | b"W") {
        return None;
    }
    let avma = u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
    let name = rest.split(|byte| byte.is_ascii_whitespace()).next()?;
    let name = Some(name).filter(|name| name.len() <= MAX_LEN)?;
    let from = address.len() + kind.len() + 2;
    (avma > 0).then_some((avma, from as u32, u16::try_from(name.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let text =
            b"ffff80000 T start\nffff80100 d data\nnonsense\nffff80200 t f\t[mod]\n0 T hidden\n";
        let names = KernelNames::new(text);
        let at = [0xf_fff8_0000, 0xf_fff8_01ff, 0xf_fff8_0200, 5].map(|avma| names.at(avma));
        assert_eq!(at, [Some("start"), Some("start"), Some("f"), None]);
    }
}
