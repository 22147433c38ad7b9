//! Makes linker symbols readable: Rust paths without hashes, C++ names without parameters, Go names
//! without type arguments.
//!
//! Formats: the Rust legacy and v0 manglings, the Itanium C++ ABI, the version suffix
//! (`@@GLIBC_2.2.5`) of glibc's symbol table, and Go's symbols
//! (`cmd/internal/objabi.PathToPrefix`; generic functions are compiled for _shapes_ of types). *Why no parameters*: stacks are grouped and searched
//! by name, and a name must fit on a line with its callers.

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::fmt;

/// Maximum depth of a C++ name: enough for real templates, not too much for the small stack of a
/// worker thread.
const MAX_CPP_DEPTH: u32 = 64;

/// The readable form of the linker symbol `name`, or `name` itself if it is not mangled.
pub(crate) fn demangle(name: &str) -> String {
    let name = match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    cpp(name).or_else(|| go(name)).unwrap_or_else(|| name.to_owned())
}

/// The name of a Go function as Go's own stack traces show it; `None` if `name` is readable, or not
/// of Go.
fn go(name: &str) -> Option<String> {
    /// A dot in the last part of an import path, such as that of `gopkg.in/yaml.v3`.
    const DOT: &str = "%2e";
    let types = name.find('[').zip(name.rfind(']'));
    let types = types.filter(|&(start, end)| start < end && name[start..].contains("[go.shape."));
    let short = types.map(|(start, end)| format!("{}...{}", &name[..=start], &name[end..]));
    let is_escaped = name.contains('/') && name.contains(DOT);
    (short.is_some() || is_escaped).then(|| short.as_deref().unwrap_or(name).replace(DOT, "."))
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol =
        Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(MAX_CPP_DEPTH))
            .ok()?;
    let options =
        DemangleOptions::new().no_params().no_return_type().recursion_limit(MAX_CPP_DEPTH);
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &options).ok().map(|()| out.0)
}

/// A longer readable name is of no use to anybody. Parts of a mangled name refer to earlier parts,
/// so that 250 bytes can stand for a gigabyte; such a name stays as it is.
const MAX_READABLE_LEN: usize = 64 << 10;

struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_READABLE_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Maximum length of a name of Microsoft's compiler that is demangled, bytes. The demangler
/// recurses without a limit, and real names are shorter.
const MAX_MSVC_LEN: usize = 2048;
/// Maximum number of digits in such a name. Digits refer to earlier parts, which may refer to still
/// earlier ones: 115 bytes took gigabytes, and the demangler has no limit. With this many digits it
/// takes about 10 MiB at most. Names of the standard library have about one digit in 30 bytes.
const MAX_MSVC_DIGITS: usize = 32;

/// The readable form of a name in a PDB: C++ names without parameters, C names without the calling
/// convention's decoration.
pub(crate) fn demangle_msvc(name: &str) -> String {
    if name.starts_with('?') {
        let digits = name.bytes().filter(u8::is_ascii_digit).count();
        if name.len() > MAX_MSVC_LEN || digits > MAX_MSVC_DIGITS {
            return name.to_owned();
        }
        let flags = msvc_demangler::DemangleFlags::NAME_ONLY;
        return msvc_demangler::demangle(name, flags).unwrap_or_else(|_| name.to_owned());
    }
    // 32-bit `_NAME@BYTES` and `@NAME@BYTES`.
    let bare = name
        .rsplit_once('@')
        .filter(|(_, bytes)| !bytes.is_empty() && bytes.bytes().all(|byte| byte.is_ascii_digit()));
    let bare = bare.and_then(|(stem, _)| stem.strip_prefix(['_', '@']));
    // PDBs have Rust's own manglings.
    bare.map_or_else(|| demangle(name), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{demangle, demangle_msvc};

    #[test]
    fn go_names_are_those_of_its_stack_traces() {
        let same = ["main.(*T).Work", "main.main.func1", "main.Map[...]", "operator[go.x", "a%2eb"];
        same.into_iter().for_each(|name| assert_eq!(demangle(name), name));
        for (name, shown) in [
            ("main.Map[go.shape.int,go.shape.string]", "main.Map[...]"),
            ("main.(*List[go.shape.struct { A []int }]).Push", "main.(*List[...]).Push"),
            ("gopkg.in/yaml%2ev3.(*decoder).unmarshal", "gopkg.in/yaml.v3.(*decoder).unmarshal"),
            ("]go.shape.[go.shape.", "]go.shape.[go.shape."),
        ] {
            assert_eq!(demangle(name), shown);
        }
    }

    #[test]
    fn microsofts_names_lose_their_parameters() {
        assert_eq!(
            demangle_msvc("?RendererMain@content@@YAHABUMainFunctionParams@1@@Z"),
            "content::RendererMain"
        );
        assert_eq!(
            demangle_msvc("?Run@MessagePumpDefault@base@@UEAAXPEAVDelegate@MessagePump@2@@Z"),
            "base::MessagePumpDefault::Run"
        );
        assert_eq!(demangle_msvc("??1Widget@ui@@QEAA@XZ"), "ui::Widget::~Widget");
        assert_eq!(demangle_msvc("_NtQueryVirtualMemory@24"), "NtQueryVirtualMemory");
        assert_eq!(demangle_msvc("@KfLowerIrql@4"), "KfLowerIrql");
        assert_eq!(demangle_msvc("ExAcquirePushLockExclusiveEx"), "ExAcquirePushLockExclusiveEx");
        assert_eq!(demangle_msvc("?"), "?");
        assert_eq!(demangle_msvc(""), "");
    }

    #[test]
    fn hostile_nesting_of_microsofts_names_ends() {
        for part in ["PEA", "?$A@", "?A", "Y0", "P6A", "$$A", "?0??", "@"] {
            for len in [MAX_LEN / part.len(), 100_000] {
                let deep = format!("?f@@YAX{}", part.repeat(len));
                let _ = demangle_msvc(&deep);
                let _ = demangle_msvc(&format!("?{}", part.repeat(len - 1)));
            }
        }
    }

    #[test]
    fn references_to_references_are_not_multiplied() {
        let types: String =
            (0..7).map(|of| format!("P6AX{}@Z", of.to_string().repeat(9))).collect();
        for name in [format!("??$f@PAH{types}@@YAXXZ"), format!("?f@@YAXPAH{types}@Z")] {
            assert_eq!(demangle_msvc(&name), name);
        }
        let types: String =
            (1..8).map(|of| format!("S0_I{}E", format!("S{of}_").repeat(8))).collect();
        let name = format!("_Z1fI1AIiiE{types}Evv");
        assert_eq!(demangle(&name), name);
    }

    const MAX_LEN: usize = super::MAX_MSVC_LEN - 8;

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(
            demangle("_ZN3lab6starve13hold_the_lock17h0123456789abcdefE"),
            "lab::starve::hold_the_lock"
        );
        assert_eq!(
            demangle("_ZN3lab6starve13hold_the_lock17h0123456789abcdefE.llvm.1234"),
            "lab::starve::hold_the_lock"
        );
        assert_eq!(
            demangle("_RNvNtCs1234_3lab6starve13hold_the_lock"),
            "lab::starve::hold_the_lock"
        );
        assert_eq!(
            demangle(
                "_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0123456789abcdefE"
            ),
            "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>"
        );
    }

    #[test]
    fn cpp_names_lose_their_parameters() {
        assert_eq!(demangle("_ZN4base11MessagePump3RunEPNS_8DelegateE"), "base::MessagePump::Run");
        assert_eq!(
            demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back"
        );
        assert_eq!(demangle("_Z3addii"), "add");
    }

    #[test]
    fn plain_names_stay() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("pthread_cond_wait@@GLIBC_2.3.2"), "pthread_cond_wait");
        assert_eq!(demangle("_Z"), "_Z");
        assert_eq!(demangle("@odd"), "@odd");
        assert_eq!(demangle(""), "");
    }

    #[test]
    fn hostile_nesting_ends() {
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&deep), deep);
        let deep = format!("_RNvC{}", "N".repeat(100_000));
        assert_eq!(demangle(&deep), deep);
    }
}
