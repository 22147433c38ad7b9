//! Patterns of function names, and which of them a name matches.

use rustc_hash::FxHashMap;

/// All patterns of the rules, numbered.
#[derive(Clone, Default)]
pub(super) struct NamePatterns {
    exact: FxHashMap<String, Vec<u16>>,
    /// Patterns with a `*`, by the first two bytes of the names that they match.
    globs: FxHashMap<Option<[u8; 2]>, Vec<Glob>>,
    len: u16,
}

/// The parts of a name between its `*`, and the number of its pattern.
type Glob = (Vec<String>, u16);

impl NamePatterns {
    /// Adds patterns, and returns their numbers.
    pub fn add_all(&mut self, names: &[String]) -> Vec<u16> {
        names.iter().map(|name| self.add(name)).collect()
    }

    fn add(&mut self, name: &str) -> u16 {
        let id = self.len;
        self.len += 1;
        if name.contains('*') {
            self.globs
                .entry(first_two(name))
                .or_default()
                .push((name.split('*').map(str::to_owned).collect(), id));
        } else {
            self.exact.entry(name.to_owned()).or_default().push(id);
        }
        id
    }

    /// True if some pattern matches a name.
    pub fn has(&self, name: &str) -> bool {
        !self.matching(name).is_empty()
    }

    /// The patterns that a function's name matches.
    pub fn matching(&self, function: &str) -> Vec<u16> {
        let name = base_name(function);
        let mut ids = self.exact.get(name).cloned().unwrap_or_default();
        // There are many names and many patterns: try only patterns that begin like the name.
        let begins = [first_two(name), None];
        let begins = if begins[0].is_none() { &begins[1..] } else { &begins[..] };
        let globs = begins.iter().filter_map(|begin| self.globs.get(begin)).flatten();
        ids.extend(globs.filter(|(parts, _)| glob(parts, name)).map(|(_, id)| *id));
        ids
    }
}

/// Suffixes that compilers append to a name after a dot, besides numbers: `.isra.0`, `.llvm.1234`,
/// Go's `.abi0`.
const SUFFIXES: [&str; 11] = [
    "isra",
    "constprop",
    "part",
    "cold",
    "llvm",
    "lto_priv",
    "localalias",
    "clone",
    "cfi_jt",
    "abi0",
    "abiinternal",
];

/// A function's name without what the compiler or the kernel's symbol table appended to it. Other
/// dots belong to the language: `sync.(*Mutex).Unlock`.
pub(crate) fn base_name(function: &str) -> &str {
    let end = find(function, " [").unwrap_or(function.len());
    let name = function.get(..end).unwrap_or(function);
    let mut name = name.split('@').next().unwrap_or(name);
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_suffix = SUFFIXES.contains(&last)
            || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()));
        if before.is_empty() || !is_suffix {
            break;
        }
        name = before;
    }
    name
}

/// The first two bytes of a name or a pattern; none if a `*` is among them.
fn first_two(name: &str) -> Option<[u8; 2]> {
    name.as_bytes().first_chunk().copied().filter(|two| !two.contains(&b'*'))
}

fn glob(parts: &[String], name: &str) -> bool {
    let [first, middle @ .., last] = parts else { return false };
    // Most names fail at their last byte, which costs least to compare.
    if last.as_bytes().last().is_some_and(|end| name.as_bytes().last() != Some(end)) {
        return false;
    }
    let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        match find(rest, part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// Where a part begins in a name. *Why not [`str::find`]*: what it prepares for long texts costs more
/// than to look through a name.
fn find(name: &str, part: &str) -> Option<usize> {
    let Some(first) = part.as_bytes().first() else { return Some(0) };
    let (name, part) = (name.as_bytes(), part.as_bytes());
    let last = name.len().checked_sub(part.len())?;
    (0..=last).find(|&at| name[at] == *first && name[at..at + part.len()] == *part)
}

#[cfg(test)]
mod tests {
    use super::base_name;

    #[test]
    fn names_are_matched_without_their_suffixes() {
        assert_eq!(base_name("rwsem_down_read_slowpath.isra.0"), "rwsem_down_read_slowpath");
        assert_eq!(base_name("ext4_sync_file [ext4]"), "ext4_sync_file");
        assert_eq!(base_name("pthread_mutex_lock@@GLIBC_2.2.5"), "pthread_mutex_lock");
        assert_eq!(
            base_name("core::ops::FnOnce::call_once{{vtable.shim}}"),
            "core::ops::FnOnce::call_once{{vtable.shim}}"
        );
        assert_eq!(base_name("lab::Cache::fill.llvm.17324580461093261834"), "lab::Cache::fill");
        assert_eq!(base_name("memcpy.part.0.constprop.3.cold"), "memcpy");
        assert_eq!(base_name("._start"), "._start");
    }

    #[test]
    fn regression_dots_of_a_language_are_part_of_the_name() {
        assert_eq!(base_name("sync.(*Mutex).Unlock"), "sync.(*Mutex).Unlock");
        assert_eq!(base_name("runtime.futex.abi0"), "runtime.futex");
        assert_eq!(
            base_name("java.util.concurrent.locks.ReentrantLock.unlock"),
            "java.util.concurrent.locks.ReentrantLock.unlock"
        );
    }
}
