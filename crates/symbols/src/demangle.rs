//! Makes linker symbols readable: Rust paths without hashes, C++ names without parameters.
//!
//! Formats: the Rust legacy and v0 manglings, the Itanium C++ ABI, and the version suffix (`@@GLIBC_2.2.5`) that glibc's own symbol table
//! carries. *Why no parameters*: the name is what stacks are grouped and searched by, and it has to fit a line beside its callers.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Deep enough for real templates, shallow enough for the small stack of a worker thread.
const CPP_RECURSION_LIMIT: u32 = 64;

/// The readable form of the linker symbol `name`; `name` itself where it is not mangled.
pub(crate) fn demangle(name: &str) -> String {
    let name = match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    cpp(name).unwrap_or_else(|| name.to_owned())
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(CPP_RECURSION_LIMIT)).ok()?;
    let options = DemangleOptions::new().no_params().no_return_type().recursion_limit(CPP_RECURSION_LIMIT);
    symbol.demangle_with_options(&options).ok()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(demangle("_ZN3lab6starve13hold_the_lock17h0123456789abcdefE"), "lab::starve::hold_the_lock");
        assert_eq!(demangle("_ZN3lab6starve13hold_the_lock17h0123456789abcdefE.llvm.1234"), "lab::starve::hold_the_lock");
        assert_eq!(demangle("_RNvNtCs1234_3lab6starve13hold_the_lock"), "lab::starve::hold_the_lock");
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
        assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector<int, std::allocator<int> >::push_back");
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
