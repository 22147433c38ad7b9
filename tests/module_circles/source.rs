//! [`Crate`]: the modules of a crate, the items each defines, and the items each uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module by the names of its ancestors and its own; empty for the crate's root.
type ModulePath = Vec<String>;

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// An item that this file defines.
    Item(String),
    /// A module, by its path.
    Module(ModulePath),
    /// Something in this file that the reader does not know, such as what a macro defines.
    Unknown(String),
}

/// One name that a `use` brings in.
struct Import {
    path: Vec<String>,
    /// The name here; `*` for all of a module.
    name: String,
    public: bool,
    /// How many inline modules it stands in.
    inline: usize,
}

/// One source file.
#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in the code, with the number of inline modules they stand in.
    paths: Vec<(Vec<String>, usize)>,
}

/// The modules of one crate.
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads the files below `source`, the folder of `lib.rs` or `main.rs`.
    pub fn read(source: &Path) -> Self {
        let mut files = Vec::new();
        find(source, source, &mut files);
        let is_library = files.iter().any(|(path, _)| path == "lib.rs");
        files.retain(|(path, _)| !(path.starts_with("bin/") || is_library && path == "main.rs"));
        Self::of(files.into_iter())
    }

    /// From files by their path below the source folder.
    pub fn of(files: impl Iterator<Item = (String, String)>) -> Self {
        let files: Vec<(ModulePath, String, String)> =
            files.map(|(file, text)| (module_path(&file), file, text)).collect();
        let paths: BTreeSet<ModulePath> = files.iter().map(|(path, ..)| path.clone()).collect();
        let modules = files.into_iter().map(|(path, file, text)| {
            let is_child =
                |other: &&ModulePath| other.split_last().is_some_and(|(_, of)| of == path);
            let children = paths.iter().filter(is_child).filter_map(|other| other.last().cloned());
            let module = Module { file, children: children.collect(), ..Module::default() };
            (path, Reader::new(&text).read(module))
        });
        Self { modules: modules.collect() }
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.modules.values().map(|module| module.file.as_str())
    }

    /// The paths that a file uses, as it writes them, and what each leads to. What belongs to other
    /// crates is left out.
    pub fn used(&self, file: &str) -> Vec<(String, Target)> {
        let Some((at, module)) = self.modules.iter().find(|(_, module)| module.file == file) else {
            return Vec::new();
        };
        let mut used = Vec::new();
        for import in &module.imports {
            let is_local = matches!(import.path[0].as_str(), "crate" | "super" | "self")
                || module.children.contains(&import.path[0]);
            let is_re_export = import.public
                && (import.name == "*"
                    || !module.paths.iter().any(|(path, _)| path.contains(&import.name)));
            if is_local && !is_re_export {
                let target = match self.resolve(at, &import.path, import.inline, 0) {
                    // Which items of the module are meant is not known.
                    Some(Target::Module(of)) if import.name == "*" => {
                        self.modules.get(&of).map(|module| Target::Unknown(module.file.clone()))
                    }
                    target => target,
                };
                used.extend(target.map(|target| (import.path.join("::"), target)));
            }
        }
        for (path, inline) in module.paths.iter().filter(|(path, _)| path.len() > 1) {
            let target = self.resolve(at, path, *inline, 0);
            used.extend(target.map(|target| (path.join("::"), target)));
        }
        used
    }

    /// What `path` means in the module `at`, inside `inline` inline modules; none outside the
    /// crate.
    fn resolve(
        &self,
        at: &ModulePath,
        path: &[String],
        inline: usize,
        depth: usize,
    ) -> Option<Target> {
        /// Longer chains of re-exports lead nowhere.
        const MAX_DEPTH: usize = 16;
        let module = self.modules.get(at)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let first = path.first()?;
        match first.as_str() {
            "crate" => self.walk(Vec::new(), &path[1..], depth),
            "self" => self.walk(at.clone(), &path[1..], depth),
            "super" => {
                let supers = path.iter().take_while(|name| *name == "super").count();
                let up = supers.saturating_sub(inline).min(at.len());
                self.walk(at[..at.len() - up].to_vec(), &path[supers..], depth)
            }
            name if module.children.contains(name) => self.walk(at.clone(), path, depth),
            name => {
                let import = module.imports.iter().find(|import| import.name == name)?;
                let whole = [&import.path, &path[1..]].concat();
                self.resolve(at, &whole, import.inline, depth + 1)
            }
        }
    }

    /// Follows `path` from the module `at`.
    fn walk(&self, mut at: ModulePath, path: &[String], depth: usize) -> Option<Target> {
        for (index, name) in path.iter().enumerate() {
            let module = self.modules.get(&at)?;
            if module.children.contains(name) {
                at.push(name.clone());
                continue;
            }
            if module.items.contains(name) {
                return Some(Target::Item(module.file.clone()));
            }
            let rest = &path[index + 1..];
            if let Some(import) = module.imports.iter().find(|import| import.name == *name) {
                let whole = [&import.path[..], rest].concat();
                return self.resolve(&at, &whole, import.inline, depth + 1);
            }
            for all in module.imports.iter().filter(|import| import.name == "*") {
                let whole = [&all.path[..], &path[index..]].concat();
                if let Some(item @ Target::Item(_)) =
                    self.resolve(&at, &whole, all.inline, depth + 1)
                {
                    return Some(item);
                }
            }
            return Some(Target::Unknown(module.file.clone()));
        }
        Some(Target::Module(at))
    }
}

fn find(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            find(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn module_path(file: &str) -> ModulePath {
    let mut path: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// Reads the tokens of a file.
struct Reader {
    tokens: Vec<String>,
    at: usize,
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

impl Reader {
    fn new(text: &str) -> Self {
        Self { tokens: tokens(text), at: 0 }
    }

    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn read(mut self, mut module: Module) -> Module {
        const ITEMS: [&str; 8] =
            ["fn", "struct", "enum", "const", "static", "type", "trait", "union"];
        let mut depth = 0_usize;
        // The depths of the inline modules around.
        let mut inline: Vec<usize> = Vec::new();
        while self.at < self.tokens.len() {
            let token = self.token(0).to_owned();
            let next = self.token(1).to_owned();
            match token.as_str() {
                "#" if next == "[" => {
                    if self.attribute() {
                        self.skip_item();
                    }
                }
                "{" => {
                    depth += 1;
                    self.at += 1;
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                    inline.pop_if(|start| *start == depth);
                }
                "mod" if self.token(2) == "{" => {
                    inline.push(depth);
                    module.items.insert(next);
                    self.at += 2;
                }
                "use" if is_word(&next) => {
                    let before = self.at.checked_sub(1).map_or("", |at| &self.tokens[at]);
                    let public = matches!(before, "pub" | ")");
                    self.at += 1;
                    self.tree(&[], &mut |path, name| {
                        let inline = inline.len();
                        module.imports.push(Import { path, name, public, inline });
                    });
                }
                "macro_rules" => {
                    module.items.insert(self.token(2).to_owned());
                    self.at += 3;
                }
                word if is_word(word) => {
                    if depth == inline.len() && ITEMS.contains(&word) && !ITEMS.contains(&&*next) {
                        module.items.insert(next);
                    }
                    let path = self.path();
                    module.paths.push((path, inline.len()));
                }
                _ => self.at += 1,
            }
        }
        module
    }

    /// Skips an attribute. True for one that keeps the item for tests only.
    fn attribute(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        self.skip_brackets();
        let words = &self.tokens[start..self.at];
        let has = |word: &str| words.iter().any(|token| token == word);
        has("cfg") && has("test") && !has("not")
    }

    /// Skips from an opening bracket to behind the one that closes it.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips to behind the next item's end.
    fn skip_item(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => {
                    self.skip_brackets();
                    return;
                }
                "(" | "[" => self.skip_brackets(),
                _ => self.at += 1,
            }
        }
    }

    /// Reads `a::b::c`.
    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.token(0).to_owned()];
        self.at += 1;
        while self.token(0) == "::" && is_word(self.token(1)) {
            path.push(self.token(1).to_owned());
            self.at += 2;
        }
        path
    }

    /// Reads the tree of a `use`, and calls `each` with every path and the name it gets.
    fn tree(&mut self, prefix: &[String], each: &mut dyn FnMut(Vec<String>, String)) {
        let mut path = prefix.to_vec();
        loop {
            let token = self.token(0).to_owned();
            match token.as_str() {
                "{" => {
                    self.at += 1;
                    while !matches!(self.token(0), "}" | "") {
                        self.tree(&path, each);
                        self.at += usize::from(self.token(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    return each(path, "*".to_owned());
                }
                word if is_word(word) => {
                    self.at += 1;
                    if self.token(0) == "::" {
                        self.at += 1;
                        path.push(token);
                        continue;
                    }
                    if word != "self" || path.is_empty() {
                        path.push(token);
                    }
                    let mut name = path.last().cloned().unwrap_or_default();
                    if self.token(0) == "as" {
                        name = self.token(1).to_owned();
                        self.at += 2;
                    }
                    return each(path, name);
                }
                // `::name`, or something else that the reader does not know.
                _ => self.at += 1,
            }
            if self.at >= self.tokens.len() {
                return;
            }
        }
    }
}

/// Words and punctuation, without comments, strings, characters and lifetimes. `::` is one token.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = literal(rest) {
            len
        } else if first == '\'' {
            1
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let end = end.unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else {
            let len = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(rest[..len].to_owned());
            }
            len
        };
        rest = &rest[len..];
    }
    tokens
}

/// The length of a string or character at the beginning of `text`, if there is one.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '#', '\'']))
    })?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if prefix.ends_with('r') {
        let body = rest[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(prefix.len() + hashes + 1 + body.find(&end)? + end.len());
    }
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        // A lifetime has no closing quote, and a character is one or an escape.
        if quote == '\'' && !escaped && at > 1 && !rest[1..].starts_with('\\') && c != '\'' {
            return None;
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote && at > 1 || c == '"' && quote == '"' => {
                return Some(prefix.len() + at + 1);
            }
            _ => {}
        }
    }
    None
}
