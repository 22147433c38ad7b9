//! Names without what differs between builds, hosts and instances: addresses, hashes, numbers.

/// A function's name: without compiler suffixes, hashes and template arguments; digits folded. Of
/// code without a name, the module.
pub fn function(name: &str) -> String {
    let name = match name.split_once("+0x") {
        Some((module, _)) if !module.contains("::") => return format!("[{}]", folded(module)),
        _ => name,
    };
    let mut name = without_arguments(name);
    // `::h` and 16 hexadecimal digits: what Rust adds to a symbol.
    let is_hash =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some((before, _)) = name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)) {
        name.truncate(before.len());
    }
    for suffix in [".isra.", ".constprop.", ".part.", ".llvm.", ".lto_priv.", ".cold"] {
        if let Some(at) = name.find(suffix) {
            name.truncate(at);
        }
    }
    folded(&name)
}

/// Without what is in angle brackets or parentheses after the beginning.
fn without_arguments(name: &str) -> String {
    let mut depth = 0_u32;
    let mut out = String::with_capacity(name.len());
    let mut last = ' ';
    for letter in name.chars() {
        match letter {
            // `operator<` and `->` open and close nothing.
            '<' | '(' if !out.is_empty() && !out.ends_with("operator") => depth += 1,
            '>' | ')' if depth > 0 && last != '-' => depth -= 1,
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
        last = letter;
    }
    // Unbalanced: the name is no name of C++ or Rust.
    if depth > 0 || out.is_empty() { name.to_owned() } else { out }
}

/// With `#` for each run of digits: `tokio-rt-worker-#`.
pub fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            _ => out.push(letter),
        }
    }
    out
}
