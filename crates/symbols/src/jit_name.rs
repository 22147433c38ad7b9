//! Makes the names in perf maps readable: function names as their authors wrote them, with file and
//! line where the runtime gives them.
//!
//! Formats: V8's `--perf-basic-prof` (`Code::CodeKindToMarker`, `SharedFunctionInfo::DebugName`):
//! `JS:*name FILE:LINE:COLUMN`, before Node.js 18 `LazyCompile:*name FILE:LINE:COLUMN`. HotSpot's
//! `jcmd PID Compiler.perfmap` (`Method::external_name`): `int pkg.Class.method(long)`.
//! perf-map-agent: `Lpkg/Class;::method`. *Why V8's marks are dropped*: they say how the code was
//! compiled (`~` interpreted, `^` baseline, `+` and `*` optimised). V8 replaces the code of one
//! function several times, and a wait in it is the same wait.

use crate::function::Function;

/// What V8 writes before the mark of a function, or of the code of a whole file.
const V8_KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];

/// The function that a perf map calls `name`. What is in no known form stays as it is.
pub(crate) fn function(name: &str) -> Function {
    let readable = || hotspot(name).or_else(|| agent(name)).unwrap_or_else(|| name.to_owned());
    v8(name).unwrap_or_else(|| Function::named(readable()))
}

fn v8(name: &str) -> Option<Function> {
    let marked = V8_KINDS.iter().find_map(|kind| name.strip_prefix(kind))?;
    let bare = marked.trim_start_matches(['~', '^', '+', '*']).trim_start_matches('\'');
    if bare.len() == marked.len() {
        return None;
    }
    let (name, place) = bare.split_at(v8_name_len(bare));
    let place = place.trim_start();
    let Some((file, line)) = file_and_line(place) else {
        return (!bare.is_empty()).then(|| Function::named(bare));
    };
    // Functions without a name are different functions.
    let name = match name {
        "" => format!("(anonymous {})", place.rsplit('/').next().unwrap_or_default()),
        name => name.to_owned(),
    };
    Some(Function { name, file: file.to_owned(), line })
}

/// The length of the name, which ends at a blank. Names of accessors have a blank: `get size`. But
/// `get` may also be a whole name, and what follows it a path, even one with blanks.
fn v8_name_len(bare: &str) -> usize {
    let property = ["get ", "set "].iter().find_map(|kind| bare.strip_prefix(kind));
    let accessor = property
        .and_then(|property| property.split_once(' '))
        .filter(|(property, _)| !property.is_empty() && !property.contains(['/', '\\', ':']));
    match accessor {
        Some((_, place)) => bare.len() - place.len() - 1,
        None => bare.find(' ').unwrap_or(bare.len()),
    }
}

/// Splits `FILE:LINE:COLUMN`, or `FILE:LINE`.
fn file_and_line(place: &str) -> Option<(&str, u32)> {
    let (rest, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let with_column =
        rest.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    Some(with_column.unwrap_or((rest, last))).filter(|(file, _)| !file.is_empty())
}

/// A method with its result and its parameters, which are left out.
fn hotspot(name: &str) -> Option<String> {
    let (declared, _) = name.strip_suffix(')')?.split_once('(')?;
    let (result, method) = declared.split_once(' ')?;
    // Constructors are called `<init>`, class initialisers `<clinit>`.
    let plain = method
        .strip_suffix("init>")
        .map_or(method, |class| class.trim_end_matches(['c', 'l', '<']));
    let is_java = !result.is_empty()
        && !result.contains(':')
        && method.contains('.')
        && method.split('.').all(|part| !part.is_empty())
        && !plain.contains([' ', ':', '[', '<']);
    is_java.then(|| without_address(method))
}

/// Classes that the JVM itself makes have an address in their name, which differs from run to run.
fn without_address(method: &str) -> String {
    match method.split_once("/0x") {
        Some((class, rest)) => {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            format!("{class}{rest}")
        }
        None => method.to_owned(),
    }
}

fn agent(name: &str) -> Option<String> {
    let (class, method) = name.strip_prefix('L')?.split_once(";::")?;
    let method = method.split_once('(').map_or(method, |(method, _)| method);
    (!class.is_empty() && !method.is_empty())
        .then(|| without_address(&format!("{}.{method}", class.replace('/', "."))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> (String, String, u32) {
        let Function { name, file, line } = function(name);
        (name, file, line)
    }

    #[test]
    fn javascript_has_names_files_and_lines() {
        for (name, function, file, line) in [
            ("JS:*parse /srv/app.js:12:21", "parse", "/srv/app.js", 12),
            ("JS:^parse /srv/app.js:12:21", "parse", "/srv/app.js", 12),
            ("JS:+'parse /srv/app.js:12:21", "parse", "/srv/app.js", 12),
            ("LazyCompile:~run /srv/app.js:3", "run", "/srv/app.js", 3),
            ("JS:~get size /srv/my app/a.js:1:126", "get size", "/srv/my app/a.js", 1),
            ("JS:~get [Symbol.species] /srv/a.js:1:2", "get [Symbol.species]", "/srv/a.js", 1),
            ("JS:*get /srv/app.js:12:3", "get", "/srv/app.js", 12),
            ("JS:*set /srv/my app/a.js:12:3", "set", "/srv/my app/a.js", 12),
            ("JS:*get C:\\my app\\a.js:12:3", "get", "C:\\my app\\a.js", 12),
            ("JS:*get node:internal/util:9:1", "get", "node:internal/util", 9),
            ("JS:~ /srv/app.js:4:27", "(anonymous app.js:4:27)", "/srv/app.js", 4),
            ("Script:~ node:internal/main:1:1", "(anonymous main:1:1)", "node:internal/main", 1),
            ("JS:*done node:internal/fs/promises:9:3", "done", "node:internal/fs/promises", 9),
            ("Function:~wasm-function[7]", "wasm-function[7]", "", 0),
            ("JS:~odd name", "odd name", "", 0),
        ] {
            assert_eq!(shown(name), (function.to_owned(), file.to_owned(), line), "{name}");
        }
    }

    #[test]
    fn java_has_classes_and_methods() {
        for (name, function) in [
            ("int Hot$Inner.work(int[], java.lang.String)", "Hot$Inner.work"),
            ("java.lang.Object[] java.util.ArrayList.grow(int)", "java.util.ArrayList.grow"),
            ("void java.lang.Object.<init>()", "java.lang.Object.<init>"),
            ("void Hot$$Lambda$1/0x00007ff490000c18.run()", "Hot$$Lambda$1.run"),
            ("Ljava/util/HashMap;::resize", "java.util.HashMap.resize"),
            ("LHot;::work(I)V", "Hot.work"),
        ] {
            assert_eq!(shown(name), (function.to_owned(), String::new(), 0), "{name}");
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "",
            "Builtin:ArrayMap",
            "BytecodeHandler:Star",
            "JS:",
            "JS:~",
            "JS:bare",
            "RegExp:a+b(c)",
            "RegExp:Chrome v.(\\d+)",
            "RegExp:a b.c(d)",
            "StubRoutines (2)",
            "Lazy",
            "L;::x",
            "slow_subtype_check Runtime1 stub",
            "void [System.Private.CoreLib] System.String::Concat(string)[Tier0]",
            "operator new(unsigned long)",
            "int std::vector<a.b>::size()",
        ] {
            assert_eq!(shown(name), (name.to_owned(), String::new(), 0), "{name}");
        }
    }
}
