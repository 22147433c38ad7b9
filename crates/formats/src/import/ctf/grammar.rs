//! The grammar of TSDL, the part of it that LTTng and barectf write.

use super::metadata::{Event, Metadata};
use super::tokens::{Token, Tokens};
use super::types::{Integer, Type, TypeId};
use crate::Error;
use rustc_hash::FxHashMap;

/// Reads the text of the metadata.
pub(super) fn parse(text: &str) -> Result<Metadata, Error> {
    let mut metadata = Metadata { clock_hertz: 1_000_000_000, ..Metadata::default() };
    let mut parser = Parser { tokens: Tokens::new(text), metadata: &mut metadata, depth: 0 };
    if parser.file().is_none() {
        let found = format!("{:?}", parser.tokens.peek());
        let expected = "the CTF metadata's grammar (TSDL 1.8)";
        return Err(Error::Damaged { expected, found, offset: 0 });
    }
    if metadata.is_big_endian {
        let big = "this CTF trace is big-endian, which Unhitch cannot read";
        return Err(Error::Unsupported(big.to_owned()));
    }
    Ok(metadata)
}

struct Parser<'a, 'm> {
    tokens: Tokens<'a>,
    metadata: &'m mut Metadata,
    depth: u32,
}

/// What a block assigns: values by name, and types by name.
#[derive(Default)]
struct Block {
    values: FxHashMap<String, String>,
    types: FxHashMap<String, TypeId>,
}

impl Block {
    fn number(&self, name: &str) -> Option<i128> {
        self.values.get(name)?.parse().ok()
    }
}

const MAX_DEPTH: u32 = 32;

impl Parser<'_, '_> {
    /// `None` where the text is not TSDL.
    fn file(&mut self) -> Option<()> {
        while self.tokens.peek() != Token::End {
            if self.tokens.take(";") {
                continue;
            }
            match self.tokens.peek() {
                Token::Word("trace") => {
                    let block = self.block()?;
                    self.metadata.is_big_endian =
                        block.values.get("byte_order").is_some_and(|it| it == "be");
                    self.metadata.packet_header = block.types.get("packet.header").copied();
                }
                Token::Word("env") => self.metadata.environment = self.block()?.values,
                Token::Word("clock") => {
                    let block = self.block()?;
                    self.clock(&block);
                }
                Token::Word("stream") => {
                    let block = self.block()?;
                    let id = block.number("id").and_then(|id| u64::try_from(id).ok()).unwrap_or(0);
                    let stream = self.metadata.streams.entry(id).or_default();
                    stream.packet_context = block.types.get("packet.context").copied();
                    stream.event_header = block.types.get("event.header").copied();
                    stream.event_context = block.types.get("event.context").copied();
                }
                Token::Word("event") => {
                    let mut block = self.block()?;
                    let number = |name: &str| {
                        block.number(name).and_then(|id| u64::try_from(id).ok()).unwrap_or(0)
                    };
                    let (id, stream) = (number("id"), number("stream_id"));
                    let event = Event {
                        context: block.types.get("context").copied(),
                        fields: block.types.get("fields").copied(),
                        name: block.values.remove("name").unwrap_or_default(),
                    };
                    self.metadata.streams.entry(stream).or_default().events.insert(id, event);
                }
                Token::Word("callsite") => {
                    self.block()?;
                }
                _ => self.declaration()?,
            }
        }
        Some(())
    }

    fn clock(&mut self, block: &Block) {
        let number = |name: &str| block.number(name).unwrap_or(0);
        let hertz = u64::try_from(number("freq")).ok().filter(|hertz| *hertz > 0);
        let hertz = hertz.unwrap_or(1_000_000_000);
        let ticks = number("offset").saturating_mul(1_000_000_000) / i128::from(hertz);
        self.metadata.clock_hertz = hertz;
        self.metadata.clock_offset_ns =
            number("offset_s").saturating_mul(1_000_000_000).saturating_add(ticks);
        self.metadata.clock_name = block.values.get("name").cloned().unwrap_or_default();
    }

    /// `WORD { NAME = VALUE; NAME := TYPE; … };`
    fn block(&mut self) -> Option<Block> {
        self.tokens.next();
        self.tokens.take("{").then_some(())?;
        let mut block = Block::default();
        while !self.tokens.take("}") {
            if self.tokens.take(";") {
                continue;
            }
            let is_declaration = matches!(
                self.tokens.peek(),
                Token::Word("typealias" | "typedef" | "struct" | "enum" | "variant")
            );
            if is_declaration {
                self.declaration()?;
                continue;
            }
            let name = self.path()?;
            if self.tokens.take("=") {
                let value = self.value()?;
                block.values.insert(name, value);
            } else if self.tokens.take(":=") {
                let of = self.type_of()?;
                block.types.insert(name, of);
            } else {
                return None;
            }
        }
        Some(block)
    }

    /// `packet.header`.
    fn path(&mut self) -> Option<String> {
        let Token::Word(first) = self.tokens.next() else { return None };
        let mut path = first.to_owned();
        while self.tokens.take(".") {
            let Token::Word(part) = self.tokens.next() else { return None };
            path.push('.');
            path.push_str(part);
        }
        Some(path)
    }

    fn value(&mut self) -> Option<String> {
        let is_negative = self.tokens.take("-");
        match self.tokens.peek() {
            Token::Number(number) => {
                self.tokens.next();
                Some(if is_negative { -number } else { number }.to_string())
            }
            Token::Text(text) => {
                self.tokens.next();
                Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
            }
            Token::Word(_) => self.path(),
            _ => None,
        }
    }

    /// `typealias TYPE := NAME;`, `typedef TYPE NAME;`, or a named type.
    fn declaration(&mut self) -> Option<()> {
        if self.tokens.take_word("typealias") {
            let of = self.type_of()?;
            self.tokens.take(":=").then_some(())?;
            let name = self.words()?;
            self.metadata.names.insert(name, of);
            return Some(());
        }
        if self.tokens.take_word("typedef") {
            let of = self.type_of()?;
            let Token::Word(name) = self.tokens.next() else { return None };
            let of = self.lengths(of)?;
            self.metadata.names.insert(name.to_owned(), of);
            return Some(());
        }
        match self.tokens.peek() {
            Token::Word("struct" | "enum" | "variant") => self.type_of().map(|_| ()),
            _ => None,
        }
    }

    /// Several names: `unsigned long`.
    fn words(&mut self) -> Option<String> {
        /// Maximum length of a name, bytes: where it is used, it is put together word by word.
        const MAX_LEN: usize = 1024;
        let Token::Word(first) = self.tokens.next() else { return None };
        let mut name = first.to_owned();
        while let Token::Word(next) = self.tokens.peek() {
            if name.len() > MAX_LEN {
                return None;
            }
            name.push(' ');
            name.push_str(next);
            self.tokens.next();
        }
        Some(name)
    }

    fn type_of(&mut self) -> Option<TypeId> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let of = self.one_type();
        self.depth -= 1;
        of
    }

    fn one_type(&mut self) -> Option<TypeId> {
        let Token::Word(word) = self.tokens.next() else { return None };
        match word {
            "integer" => {
                let integer = self.integer()?;
                Some(self.metadata.types.add(Type::Integer(integer)))
            }
            "floating_point" => {
                let block = self.assignments()?;
                let number = |name: &str| block.number(name).unwrap_or(0);
                let bits = number("exp_dig").saturating_add(number("mant_dig"));
                let bits = u32::try_from(bits).ok().filter(|bits| *bits <= 64)?;
                let align = align_of(&block)?.unwrap_or(1);
                Some(self.metadata.types.add(Type::Float { bits, align }))
            }
            "string" => {
                if matches!(self.tokens.peek(), Token::Sign("{")) {
                    self.assignments()?;
                }
                Some(self.metadata.types.add(Type::Text))
            }
            "struct" => self.structure(),
            "enum" => self.enumeration(),
            "variant" => self.variant(),
            first => {
                // The name of a type may be several words, and a field's name follows it.
                let mut name = first.to_owned();
                if let Some(of) = self.longer_name(&mut name) {
                    return Some(of);
                }
                self.metadata.names.get(&name).copied()
            }
        }
    }

    /// `unsigned long x`: as many words as make the name of a known type.
    fn longer_name(&mut self, name: &mut String) -> Option<TypeId> {
        let mut found = self.metadata.names.get(name.as_str()).copied();
        loop {
            let Token::Word(next) = self.tokens.peek() else { return found };
            if !matches!(next, "long" | "int" | "char" | "short" | "unsigned" | "signed") {
                return found;
            }
            let longer = format!("{name} {next}");
            let mut behind = self.metadata.names.range(longer.clone()..);
            if !behind.next().is_some_and(|(known, _)| known.starts_with(&longer)) {
                return found;
            }
            self.tokens.next();
            *name = longer;
            found = self.metadata.names.get(name.as_str()).copied();
        }
    }

    /// `{ NAME = VALUE; … }` of a type.
    fn assignments(&mut self) -> Option<Block> {
        self.tokens.take("{").then_some(())?;
        let mut block = Block::default();
        while !self.tokens.take("}") {
            let name = self.path()?;
            self.tokens.take("=").then_some(())?;
            let value = self.value()?;
            block.values.insert(name, value);
            self.tokens.take(";");
        }
        Some(block)
    }

    fn integer(&mut self) -> Option<Integer> {
        let block = self.assignments()?;
        let bits = u32::try_from(block.number("size")?).ok().filter(|bits| *bits <= 64)?;
        let default_align = if bits % 8 == 0 { 8 } else { 1 };
        let align = align_of(&block)?.unwrap_or(default_align);
        let is = |name: &str, words: &[&str]| {
            block.values.get(name).is_some_and(|value| words.contains(&value.as_str()))
        };
        let signed = is("signed", &["true", "1", "TRUE"]);
        let is_clock = block.values.contains_key("map");
        if is("byte_order", &["be", "network"]) && bits > 8 {
            // LTTng writes network addresses so; nothing that a trace is made of.
            return Some(Integer { bits, align, signed: false, is_clock: false });
        }
        Some(Integer { bits, align, signed, is_clock })
    }

    fn structure(&mut self) -> Option<TypeId> {
        let name = match self.tokens.peek() {
            Token::Word("align") | Token::Sign(_) => None,
            Token::Word(name) => {
                self.tokens.next();
                Some(format!("struct {name}"))
            }
            _ => return None,
        };
        if !self.tokens.take("{") {
            return self.metadata.names.get(&name?).copied();
        }
        let fields = self.fields()?;
        let mut align = 1;
        if self.tokens.take_word("align") {
            self.tokens.take("(").then_some(())?;
            let Token::Number(bits) = self.tokens.next() else { return None };
            align =
                u32::try_from(bits).ok().filter(|bits| bits.is_power_of_two() && *bits <= 4096)?;
            self.tokens.take(")").then_some(())?;
        }
        let of = self.metadata.types.add(Type::Struct { fields, align });
        if let Some(name) = name {
            self.metadata.names.insert(name, of);
        }
        Some(of)
    }

    /// `TYPE NAME; …}` of a structure or variant.
    fn fields(&mut self) -> Option<Vec<(String, TypeId)>> {
        let mut fields = Vec::new();
        while !self.tokens.take("}") {
            if self.tokens.take(";") {
                continue;
            }
            if matches!(self.tokens.peek(), Token::Word("typealias" | "typedef")) {
                self.declaration()?;
                continue;
            }
            let of = self.type_of()?;
            if self.tokens.take(";") {
                continue;
            }
            loop {
                let Token::Word(name) = self.tokens.next() else { return None };
                let of = self.lengths(of)?;
                fields.push((name.to_owned(), of));
                if !self.tokens.take(",") {
                    break;
                }
            }
            self.tokens.take(";").then_some(())?;
        }
        Some(fields)
    }

    /// `[16]` or `[ length ]` behind a field's name.
    fn lengths(&mut self, of: TypeId) -> Option<TypeId> {
        const MAX_DIMENSIONS: usize = 8;
        let mut of = of;
        for _ in 0..MAX_DIMENSIONS {
            if !self.tokens.take("[") {
                return Some(of);
            }
            let with_len = match self.tokens.peek() {
                Token::Number(len) => {
                    self.tokens.next();
                    Type::Array { of, len: u64::try_from(len).ok()? }
                }
                Token::Word(_) => Type::Sequence { of, len: self.path()? },
                _ => return None,
            };
            of = self.metadata.types.add(with_len);
            self.tokens.take("]").then_some(())?;
        }
        None
    }

    fn enumeration(&mut self) -> Option<TypeId> {
        let mut name = None;
        if let Token::Word(word) = self.tokens.peek() {
            self.tokens.next();
            name = Some(format!("enum {word}"));
        }
        let mut of = Integer { bits: 32, align: 8, signed: true, is_clock: false };
        if self.tokens.take(":") {
            let base = self.type_of()?;
            let Some(Type::Integer(integer)) = self.metadata.types.get(base) else { return None };
            of = *integer;
        }
        if !self.tokens.take("{") {
            return self.metadata.names.get(&name?).copied();
        }
        let (mut names, mut next) = (Vec::new(), 0);
        while !self.tokens.take("}") {
            let label = match self.tokens.next() {
                Token::Word(label) | Token::Text(label) => label.to_owned(),
                _ => return None,
            };
            let (mut low, mut high) = (next, next);
            if self.tokens.take("=") {
                low = self.signed()?;
                high = if self.tokens.take("...") { self.signed()? } else { low };
            }
            next = high.saturating_add(1);
            names.push((label, low, high));
            self.tokens.take(",");
        }
        let of = self.metadata.types.add(Type::Enum { of, names });
        if let Some(name) = name {
            self.metadata.names.insert(name, of);
        }
        Some(of)
    }

    fn signed(&mut self) -> Option<i128> {
        let is_negative = self.tokens.take("-");
        let Token::Number(number) = self.tokens.next() else { return None };
        Some(if is_negative { -number } else { number })
    }

    fn variant(&mut self) -> Option<TypeId> {
        let mut name = None;
        if let Token::Word(word) = self.tokens.peek() {
            self.tokens.next();
            name = Some(format!("variant {word}"));
        }
        let mut tag = String::new();
        if self.tokens.take("<") {
            tag = self.path()?;
            self.tokens.take(">").then_some(())?;
        }
        let of = if self.tokens.take("{") {
            let options = self.fields()?;
            Type::Variant { tag, options }
        } else {
            let known = self.metadata.names.get(name.as_ref()?)?;
            let Some(Type::Variant { options, .. }) = self.metadata.types.get(*known) else {
                return None;
            };
            // A copy per use is bounded by the text only if it is not copied again and again.
            if self.metadata.copied > MAX_COPIED {
                return None;
            }
            self.metadata.copied += options.len();
            Type::Variant { tag, options: options.clone() }
        };
        let id = self.metadata.types.add(of);
        if let Some(name) = name {
            self.metadata.names.insert(name, id);
        }
        Some(id)
    }
}

/// Maximum number of options of variants that are copied to their uses.
const MAX_COPIED: usize = 10_000;

/// The alignment, if it is given. `None` if it is none.
fn align_of(block: &Block) -> Option<Option<u32>> {
    match block.number("align") {
        None => Some(None),
        Some(bits) => {
            let bits = u32::try_from(bits).ok()?;
            (bits.is_power_of_two() && bits <= 4096).then_some(Some(bits))
        }
    }
}
