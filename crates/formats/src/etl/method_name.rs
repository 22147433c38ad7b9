//! Formats methods of .NET as its stack traces do: `System.String.Concat(String, String)`.
//!
//! The runtime's events have the type (`Dictionary`2[System.__Canon,System.__Canon]`), the method,
//! and the signature in intermediate language (`instance void  (!0,unsigned int8[])`). *Why
//! rewritten*: signatures are long, and most of their words do not help to identify the method.

/// Formats a method. Parts that cannot be parsed stay as they are.
pub(super) fn method_name(type_name: &str, method: &str, signature: &str) -> String {
    let mut name = instantiation(type_name, false, MAX_DEPTH);
    if !name.is_empty() {
        name.push('.');
    }
    name.push_str(&instantiation(method, false, MAX_DEPTH));
    // Methods do not differ in being static or in what they return alone.
    let parameters = signature.find("  (").map(|at| at + 2).or(signature.find('('));
    if let Some(parameters) = parameters.and_then(|at| signature.get(at + 1..)) {
        let parameters = parameters.trim_end().strip_suffix(')').unwrap_or(parameters);
        let types: Vec<String> =
            split(parameters).into_iter().map(|of| parameter(of, MAX_DEPTH)).collect();
        name.push('(');
        name.push_str(&types.join(", "));
        name.push(')');
    }
    name
}

/// Maximum depth of types in types that are formatted.
const MAX_DEPTH: u8 = 16;

/// The parts between commas outside brackets. Empty parts are left out.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list.get(start..).unwrap_or_default());
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The intermediate language's names of types, and .NET's.
const TYPES: [(&str, &str); 21] = [
    ("bool", "Boolean"),
    ("char", "Char"),
    ("wchar", "Char"),
    ("int8", "SByte"),
    ("int16", "Int16"),
    ("int32", "Int32"),
    ("int64", "Int64"),
    ("unsigned int8", "Byte"),
    ("unsigned int16", "UInt16"),
    ("unsigned int32", "UInt32"),
    ("unsigned int64", "UInt64"),
    ("float32", "Single"),
    ("float64", "Double"),
    ("int", "IntPtr"),
    ("native int", "IntPtr"),
    ("unsigned int", "UIntPtr"),
    ("native unsigned int", "UIntPtr"),
    ("void", "Void"),
    ("object", "Object"),
    ("string", "String"),
    ("refany", "TypedReference"),
];

/// A parameter's type without its namespace, as in `Exception.StackTrace`.
fn parameter(text: &str, depth: u8) -> String {
    let mut text = text.trim();
    while let Some(rest) =
        ["class ", "value class ", "valuetype "].iter().find_map(|word| text.strip_prefix(word))
    {
        text = rest.trim_start();
    }
    let end = text.find(['[', '&', '*']).unwrap_or(text.len());
    let (word, suffix) = text.split_at(end);
    match TYPES.iter().find(|(of, _)| *of == word.trim_end()) {
        Some((_, name)) => format!("{name}{suffix}"),
        None => instantiation(text, true, depth),
    }
}

/// A type or method with its type arguments: `List`1[System.Int32]` and `List`1<int32>` are
/// `List<Int32>`. With `short`, without the namespace.
fn instantiation(text: &str, short: bool, depth: u8) -> String {
    let Some(depth) = depth.checked_sub(1) else { return text.to_owned() };
    let bracket = arguments(text);
    let (generic, rest) = text.split_at(bracket.unwrap_or(text.len()));
    let generic = without_counts(generic);
    let mut name = match short {
        true => generic.rsplit(['.', '+']).next().unwrap_or(&generic).to_owned(),
        // Constructors are called .ctor.
        false => generic.replace('+', "."),
    };
    let Some(closed) = bracket.and_then(|_| closing(rest)) else {
        name.push_str(rest);
        return name;
    };
    let (inside, after) = rest.split_at(closed);
    let arguments =
        split(inside.get(1..).unwrap_or_default()).into_iter().map(|of| parameter(of, depth));
    name.push('<');
    name.push_str(&arguments.collect::<Vec<_>>().join(", "));
    name.push('>');
    name.push_str(after.get(1..).unwrap_or_default());
    name
}

/// Where the type arguments begin. Brackets of arrays hold none, and names that the compiler made
/// (`<Main>d__0`) start with brackets of their own.
fn arguments(text: &str) -> Option<usize> {
    let counted = text.find('`').unwrap_or(0);
    let after = text.get(counted..)?;
    let square = after.match_indices('[').map(|(at, _)| counted + at);
    let mut square =
        square.filter(|at| text.get(at + 1..).is_some_and(|rest| !rest.starts_with([']', ','])));
    let angle = || after.find('<').filter(|_| text.contains('`')).map(|at| counted + at);
    match (square.next(), angle()) {
        (Some(square), Some(angle)) => Some(square.min(angle)),
        (square, angle) => square.or(angle),
    }
}

/// Where the bracket at the start of `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '<' => depth += 1,
            ']' | '>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Removes the numbers of type parameters: a backquote and digits.
fn without_counts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_count = false;
    for letter in text.chars() {
        in_count = letter == '`' || in_count && letter.is_ascii_digit();
        if !in_count {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_stack_traces() {
        for (of, method, signature, expected) in [
            (
                "System.String",
                "Concat",
                "class System.String  (class System.String,class System.String)",
                "System.String.Concat(String, String)",
            ),
            ("System.Char", "IsSurrogate", "bool  (wchar)", "System.Char.IsSurrogate(Char)"),
            ("System.Object", ".ctor", "instance void  ()", "System.Object..ctor()"),
            (
                "System.IO.Stream+NullStream",
                "Read",
                "instance int32  (unsigned int8[],int32&,value class System.DateTime,int)",
                "System.IO.Stream.NullStream.Read(Byte[], Int32&, DateTime, IntPtr)",
            ),
            (
                "System.Collections.Generic.Dictionary`2[System.__Canon,System.__Canon]",
                "Insert",
                "instance void  (!0,!1,bool)",
                "System.Collections.Generic.Dictionary<__Canon, __Canon>.Insert(!0, !1, Boolean)",
            ),
            (
                "A.Outer`1+Inner`1[System.Int32,A.Pair`2[System.String,System.Byte[]]]",
                "Get",
                "class A.Pair`2<!0,!1>  (class A.Pair`2<int32,class A.Pair`2<!0,wchar[]>>[])",
                "A.Outer.Inner<Int32, Pair<String, Byte[]>>.Get(Pair<Int32, Pair<!0, Char[]>>[])",
            ),
            (
                "System.Linq.Enumerable",
                "Select[System.Int32]",
                "!!0  (!!0)",
                "System.Linq.Enumerable.Select<Int32>(!!0)",
            ),
            (
                "App.Program+<Main>d__0",
                "MoveNext",
                "instance void  ()",
                "App.Program.<Main>d__0.MoveNext()",
            ),
            (
                "System.Int32[,]",
                "Get",
                "instance int32  (int32,int32)",
                "System.Int32[,].Get(Int32, Int32)",
            ),
            (
                "dynamicClass",
                "IL_STUB_PInvoke",
                "int  (int,unsigned int8*)",
                "dynamicClass.IL_STUB_PInvoke(IntPtr, Byte*)",
            ),
            ("", "main", "", "main"),
        ] {
            assert_eq!(method_name(of, method, signature), expected);
        }
    }

    #[test]
    fn damaged_names_stay_what_they_are() {
        for text in [
            "`",
            "A`1[",
            "A`1]",
            "<",
            "[[[",
            ">>",
            "é`2<é",
            "a`1<b>c`2[d",
            "((((",
            "  (",
            "  (]",
            "\u{1F600}`9[\u{1F600}",
        ] {
            for other in ["", text] {
                let name = method_name(text, other, text);
                assert!(name.len() <= 4 * text.len() + 16, "{text} {name}");
            }
        }
    }
}
