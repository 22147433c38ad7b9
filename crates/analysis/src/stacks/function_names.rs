//! Single names: which only implement a lock or a wait, which start every program, and how long
//! names are shortened.

use super::name_patterns::base_name;

/// True for functions that start every program or thread, or enter every system call.
pub(crate) fn is_scaffold(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "main",
        "clone",
        "clone3",
        "__clone3",
        "start_thread",
        "ret_from_fork",
        "ret_from_fork_asm",
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "x64_sys_call",
        "__x64_sys_futex",
        "do_futex",
        "asm_common_interrupt",
        "asm_sysvec_apic_timer_interrupt",
        "sysvec_apic_timer_interrupt",
        "rust_begin_unwind",
        "syscall",
        "__GI___clone3",
        "__GI___clone",
    ];
    const PARTS: &[&str] = &[
        "std::rt::",
        "std::sys::",
        "std::panic",
        "std::thread::",
        "core::ops::function::",
        "__rust_begin_short_backtrace",
        "__rust_try",
        "alloc::boxed::Box<",
        "as core::ops::",
    ];
    EXACT.contains(&base_name(name)) || PARTS.iter().any(|part| name.contains(part))
}

/// True for functions that only implement a lock, a wait or a wake-up for their caller.
pub(crate) fn is_primitive(name: &str) -> bool {
    const PARTS: &[&str] = &[
        "lock",
        "futex",
        "mutex",
        "pthread_",
        "sem_",
        "condvar",
        "guard",
        "drop_in_place",
        "wake",
        "leavecrit",
        "exrelease",
        "schedule",
        "syscall",
        "__x64_sys_",
        "_slowpath",
        "usleep",
    ];
    const EXACT: &[&str] = &["up_read", "up_write", "up", "complete", "complete_all"];
    let last = own_part(&without_blocks(name));
    EXACT.contains(&last.as_str()) || PARTS.iter().any(|part| last.contains(part))
}

/// The same for a function of the program's own, which may be called `lock_account` or `wakeUpUsers`:
/// nothing in its name may be about anything else.
pub(crate) fn is_own_primitive(name: &str) -> bool {
    const ABOUT: &[&str] = &[
        "lock",
        "unlock",
        "trylock",
        "rwlock",
        "spinlock",
        "mutex",
        "futex",
        "semaphore",
        "sem",
        "condvar",
        "guard",
        "wake",
        "wakeup",
        "schedule",
        "usleep",
        "syscall",
    ];
    const BESIDES: &[&str] = &[
        "acquire",
        "all",
        "and",
        "cond",
        "contended",
        "do",
        "down",
        "drop",
        "exclusive",
        "fast",
        "for",
        "impl",
        "in",
        "inner",
        "internal",
        "one",
        "path",
        "place",
        "pthread",
        "raw",
        "read",
        "release",
        "scoped",
        "shared",
        "slow",
        "slowpath",
        "spin",
        "timed",
        "timeout",
        "try",
        "up",
        "wait",
        "write",
    ];
    let own = own_part(base_name(name));
    let words = words_of(&own);
    let is_known =
        |word: &String| ABOUT.contains(&word.as_str()) || BESIDES.contains(&word.as_str());
    words.iter().all(is_known) && words.iter().any(|word| ABOUT.contains(&word.as_str()))
}

/// True for a function that is called after a lock.
pub(crate) fn is_about_lock(name: &str) -> bool {
    let own = own_part(&without_blocks(name));
    ["lock", "mutex", "guard"].iter().any(|part| own.contains(part))
}

/// A name in lower case: neither a block nor a clock is a lock.
fn without_blocks(name: &str) -> String {
    base_name(name).to_ascii_lowercase().replace("block", "").replace("clock", "")
}

/// The function's own name, without the path before it: `lock_lab::scan` is no lock, and neither is
/// `lockfree.(*Queue).Push` of Go or Java.
fn own_part(name: &str) -> String {
    let last = name
        .rsplit("::")
        .find(|part| !part.is_empty() && !part.starts_with('h') | (part.len() != 17))
        .unwrap_or(name);
    let own = last.rsplit_once('.').map(|(_, own)| own);
    own.filter(|own| own.starts_with(char::is_alphabetic)).unwrap_or(last).to_owned()
}

/// The words of a name, in lower case: of `unlock_slow`, `unlockSlow` and `UnlockSlow` the same.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && was_lower);
        if begins {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A method's name by its type alone: `<std::io::BufWriter<W> as std::io::Write>::flush` is
/// `BufWriter<W>::flush`. Others as they are.
fn with_type(name: &str) -> String {
    let mut depth = 0;
    let is_last = |c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0
    };
    let end = name.starts_with('<').then(|| name.find(is_last)).flatten();
    let Some(end) = end else { return name.to_owned() };
    let (of, rest) = (&name[1..end], &name[end + 1..]);
    let of = of.split(" as ").next().unwrap_or(of);
    let generic = of.find('<').unwrap_or(of.len());
    let path = of[..generic].trim_start_matches(['&', '*', '(']);
    let path = path.strip_prefix("mut ").unwrap_or(path);
    let last = path.rsplit("::").next().unwrap_or(path);
    format!("{last}{}{rest}", &of[generic..])
}

/// A long name without its template and generic arguments (those of Python's names, `f.<locals>.g`,
/// are none); if it is still long, also without the beginning of its path.
pub(crate) fn shorten(name: &str) -> String {
    /// Maximum characters.
    const MAX_LEN: usize = 48;
    let is_long = |name: &str| name.chars().count() > MAX_LEN;
    if !is_long(name) {
        return name.to_owned();
    }
    let name = &with_type(name);
    let is_python = name.contains(".<");
    let mut depth = 0;
    let kept: String = name
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '<');
            let keep = depth == 0 || is_python;
            depth -= i32::from(c == '>');
            keep
        })
        .collect();
    // Of the arguments of a function: `collect::<Vec<u8>>`.
    let kept = kept.replace("::::", "::");
    let kept = kept.strip_suffix("::").unwrap_or(&kept);
    if !is_long(kept) {
        return kept.to_owned();
    }
    let mut tail = kept;
    while let Some((_, rest)) = tail.split_once("::").filter(|_| is_long(tail)) {
        tail = rest;
    }
    match tail.chars().count() {
        n if n <= MAX_LEN => format!("…::{tail}"),
        n => format!("…{}", tail.chars().skip(n - MAX_LEN).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_the_type_of_a_method() {
        let long = [
            (
                "<std::io::buffered::bufwriter::BufWriter<std::fs::File>>::flush_buf",
                "BufWriter::flush_buf",
            ),
            (
                "<&mut std::io::stdio::StderrLock<'_> as std::io::Write>::write_all_vectored",
                "StderrLock::write_all_vectored",
            ),
            (
                "alloc::vec::Vec<alloc::string::String>::extend::<core::iter::Empty<u8>>::trusted",
                "alloc::vec::Vec::extend::trusted",
            ),
            (
                "core::iter::Iterator::collect::<alloc::vec::Vec<alloc::string::String>>",
                "core::iter::Iterator::collect",
            ),
        ];
        for (name, short) in long {
            assert_eq!(shorten(name), short);
        }
        assert_eq!(shorten("<T as U>::short"), "<T as U>::short");
        assert_eq!(
            shorten("recalculate_the_sheet.<locals>.<genexpr> (sheet.py:13)"),
            "…ulate_the_sheet.<locals>.<genexpr> (sheet.py:13)"
        );
    }

    #[test]
    fn what_only_implements_a_lock_is_told_from_what_is_named_after_one() {
        for name in ["lock_slow", "Mutex::lock", "my::RwLock<T>::read_lock", "pkg.(*Lock).LockSlow"]
        {
            assert!(is_own_primitive(name), "{name}");
        }
        for name in
            ["schedule_backup", "unlockAccount", "bank.Account.lockFile", "wakeUpUsers", "draw"]
        {
            assert!(!is_own_primitive(name), "{name}");
        }
        assert!(is_about_lock("unlockAccount") && !is_about_lock("wakeUpUsers"));
        assert!(!is_about_lock("lock_lab::scan") && !is_about_lock("next_block"));
    }
}
