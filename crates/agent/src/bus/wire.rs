//! Messages as bytes. Every length is checked against what is there before it is believed.

/// Length of a message's head up to the length of its fields.
pub const FIXED: usize = 16;
/// Maximum length of a message that is read, bytes. The bus itself allows 128 MiB.
pub const MAX_MESSAGE: usize = 1 << 20;
/// Maximum depth of values in values.
const MAX_DEPTH: usize = 16;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Call,
    Answer,
    Error,
    Signal,
}

/// A value that was read.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Number(u64),
    Text(String),
    /// An array, a structure or an entry of a dictionary.
    List(Vec<Value>),
    /// What no caller needs: a floating-point number.
    Skipped,
}

impl Value {
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The value of a dictionary's key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::List(entries) = self else { return None };
        entries.iter().find_map(|entry| match entry {
            Self::List(pair) if pair.first().and_then(Self::as_str) == Some(key) => pair.get(1),
            _ => None,
        })
    }
}

/// The arguments of a call, as bytes.
#[derive(Clone, Default, Debug)]
pub struct Body {
    signature: String,
    bytes: Vec<u8>,
}

impl Body {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn put_u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend(number.to_le_bytes());
    }

    fn put_text(&mut self, text: &str) {
        // A zero would end it early for its reader.
        let text = text.replace('\0', "");
        self.put_u32(u32::try_from(text.len()).unwrap_or(0));
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    fn put_signature(&mut self, signature: &str) {
        self.bytes.push(u8::try_from(signature.len()).unwrap_or(0));
        self.bytes.extend(signature.as_bytes());
        self.bytes.push(0);
    }

    /// Elements that begin at a multiple of `align`, with their length before them.
    fn put_array(&mut self, align: usize, fill: impl FnOnce(&mut Self)) {
        self.put_u32(0);
        let at = self.bytes.len() - 4;
        self.align(align);
        let start = self.bytes.len();
        fill(self);
        let len = u32::try_from(self.bytes.len() - start).unwrap_or(0);
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Entries of the type `{sv}`; a value is a text or a byte.
    fn put_options(&mut self, options: &[(&str, Choice<'_>)]) {
        self.put_array(8, |body| {
            for (name, choice) in options {
                body.align(8);
                body.put_text(name);
                match choice {
                    Choice::Text(text) => {
                        body.put_signature("s");
                        body.put_text(text);
                    }
                    Choice::Byte(byte) => {
                        body.put_signature("y");
                        body.bytes.push(*byte);
                    }
                }
            }
        });
    }

    pub fn string(mut self, text: &str) -> Self {
        self.signature.push('s');
        self.put_text(text);
        self
    }

    pub fn path(mut self, path: &str) -> Self {
        self.signature.push('o');
        self.put_text(path);
        self
    }

    pub fn u32(mut self, number: u32) -> Self {
        self.signature.push('u');
        self.put_u32(number);
        self
    }

    pub fn i32(mut self, number: i32) -> Self {
        self.signature.push('i');
        self.put_u32(number.cast_unsigned());
        self
    }

    pub fn strings(mut self, texts: &[&str]) -> Self {
        self.signature.push_str("as");
        self.put_array(4, |body| texts.iter().for_each(|text| body.put_text(text)));
        self
    }

    pub fn options(mut self, options: &[(&str, Choice<'_>)]) -> Self {
        self.signature.push_str("a{sv}");
        self.put_options(options);
        self
    }

    /// Names with options each: `a(sa{sv})`.
    pub fn named_options(mut self, all: &[(&str, &[(&str, Choice<'_>)])]) -> Self {
        self.signature.push_str("a(sa{sv})");
        self.put_array(8, |body| {
            for (name, options) in all {
                body.align(8);
                body.put_text(name);
                body.put_options(options);
            }
        });
        self
    }
}

/// The value of an option.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    Text(&'a str),
    Byte(u8),
}

/// A message, to send or as read.
#[derive(Clone, Debug)]
pub struct Message {
    pub kind: Kind,
    pub destination: String,
    pub path: String,
    pub interface: String,
    pub member: String,
    pub sender: String,
    /// The name of an error.
    pub error: String,
    /// The call that this answers.
    pub answers: u32,
    body: Body,
    pub values: Vec<Value>,
}

impl Message {
    /// A call of a method.
    pub fn call(destination: &str, path: &str, interface: &str, member: &str, body: Body) -> Self {
        Self {
            kind: Kind::Call,
            destination: destination.to_owned(),
            path: path.to_owned(),
            interface: interface.to_owned(),
            member: member.to_owned(),
            sender: String::new(),
            error: String::new(),
            answers: 0,
            body,
            values: Vec::new(),
        }
    }

    /// A call of the bus itself.
    pub fn to_bus(member: &str, body: Body) -> Self {
        Self::call(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus",
            member,
            body,
        )
    }

    /// True for this signal.
    pub fn is_signal(&self, interface: &str, member: &str) -> bool {
        self.kind == Kind::Signal && self.interface == interface && self.member == member
    }

    /// The bytes of a call.
    pub fn bytes(&self, serial: u32) -> Vec<u8> {
        let mut head = Body::default();
        head.bytes.extend([b'l', 1, 0, 1]);
        head.put_u32(u32::try_from(self.body.bytes.len()).unwrap_or(0));
        head.put_u32(serial);
        head.put_array(8, |head| {
            let fields = [
                (1, "o", &self.path),
                (2, "s", &self.interface),
                (3, "s", &self.member),
                (6, "s", &self.destination),
            ];
            for (code, signature, text) in fields {
                head.align(8);
                head.bytes.push(code);
                head.put_signature(signature);
                head.put_text(text);
            }
            if !self.body.signature.is_empty() {
                head.align(8);
                head.bytes.push(8);
                head.put_signature("g");
                head.put_signature(&self.body.signature);
            }
        });
        head.align(8);
        head.bytes.extend(&self.body.bytes);
        head.bytes
    }

    /// A message that was read; `None` if it is not one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let total = total_len(bytes).filter(|total| *total == bytes.len())?;
        let kind = match bytes.get(1)? {
            1 => Kind::Call,
            2 => Kind::Answer,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => return None,
        };
        let mut message = Self { kind, ..Self::call("", "", "", "", Body::default()) };
        let mut reader = Reader { bytes, at: 12 };
        let fields = reader.value("a(yv)", &mut 0, 0)?;
        let Value::List(fields) = fields else { return None };
        let mut signature = String::new();
        for field in fields {
            let Value::List(pair) = field else { return None };
            let [Value::Number(code), value] = <[Value; 2]>::try_from(pair).ok()? else {
                return None;
            };
            let text = || value.as_str().map(str::to_owned);
            match code {
                1 => message.path = text()?,
                2 => message.interface = text()?,
                3 => message.member = text()?,
                4 => message.error = text()?,
                5 => message.answers = value.as_u32()?,
                7 => message.sender = text()?,
                8 => signature = text()?,
                _ => {}
            }
        }
        reader.align(8);
        let mut at = 0;
        while at < signature.len() {
            message.values.push(reader.value(&signature, &mut at, 0)?);
        }
        (reader.at <= total).then_some(message)
    }
}

/// The length of a message from its first [`FIXED`] bytes; `None` if this is not the head of one.
pub fn total_len(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'l') || bytes.get(3) != Some(&1) {
        return None;
    }
    let number =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let fields = number(12)?;
    (FIXED + fields).checked_next_multiple_of(8)?.checked_add(number(4)?)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn number(&mut self, len: usize) -> Option<u64> {
        self.align(len);
        let bytes = self.take(len)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    fn text(&mut self, len: u64) -> Option<String> {
        let len = usize::try_from(len).ok()?;
        let text = String::from_utf8_lossy(self.take(len)?).into_owned();
        self.take(1)?;
        Some(text)
    }

    /// The value of the type that begins at `at`, which moves behind it.
    fn value(&mut self, signature: &str, at: &mut usize, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        let kind = *signature.as_bytes().get(*at)?;
        *at += 1;
        Some(match kind {
            b'y' => Value::Number(self.number(1)?),
            b'n' | b'q' => Value::Number(self.number(2)?),
            b'b' | b'i' | b'u' | b'h' => Value::Number(self.number(4)?),
            b'x' | b't' => Value::Number(self.number(8)?),
            b'd' => {
                self.number(8)?;
                Value::Skipped
            }
            b's' | b'o' => {
                let len = self.number(4)?;
                Value::Text(self.text(len)?)
            }
            b'g' => {
                let len = self.number(1)?;
                Value::Text(self.text(len)?)
            }
            b'v' => {
                let len = self.number(1)?;
                let inner = self.text(len)?;
                self.value(&inner, &mut 0, depth + 1)?
            }
            b'(' | b'{' => {
                self.align(8);
                let mut members = Vec::new();
                while !matches!(signature.as_bytes().get(*at)?, b')' | b'}') {
                    members.push(self.value(signature, at, depth + 1)?);
                }
                *at += 1;
                Value::List(members)
            }
            b'a' => self.array(signature, at, depth)?,
            _ => return None,
        })
    }

    fn array(&mut self, signature: &str, at: &mut usize, depth: usize) -> Option<Value> {
        let len = usize::try_from(self.number(4)?).ok()?;
        let element = *at;
        if matches!(signature.as_bytes().get(element)?, b'x' | b't' | b'd' | b'(' | b'{') {
            self.align(8);
        }
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len())?;
        let mut values = Vec::new();
        while self.at < end {
            *at = element;
            let before = self.at;
            values.push(self.value(signature, at, depth + 1)?);
            // A value of no length would be read for ever.
            if self.at == before {
                return None;
            }
        }
        // Of an empty array, the type of its elements is still to be skipped.
        *at = skip(signature, element, depth)?;
        (self.at == end).then_some(Value::List(values))
    }
}

/// Where the type that begins at `at` ends.
fn skip(signature: &str, at: usize, depth: usize) -> Option<usize> {
    if depth > MAX_DEPTH {
        return None;
    }
    match signature.as_bytes().get(at)? {
        b'a' => skip(signature, at + 1, depth + 1),
        b'(' | b'{' => {
            let mut inner = at + 1;
            while !matches!(signature.as_bytes().get(inner)?, b')' | b'}') {
                inner = skip(signature, inner, depth + 1)?;
            }
            Some(inner + 1)
        }
        _ => Some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let body = Body::default()
            .string("Unhitch")
            .u32(7)
            .strings(&["open", "Öffnen"])
            .options(&[("urgency", Choice::Byte(1)), ("desktop-entry", Choice::Text("unhitch"))])
            .named_options(&[("save", &[("description", Choice::Text("Save"))])])
            .path("/a")
            .i32(-1);
        Message::call("org.a", "/org/a", "org.a.B", "Do", body).bytes(5)
    }

    #[test]
    fn what_was_written_is_read() {
        let message = Message::parse(&message()).unwrap();
        assert_eq!((message.path.as_str(), message.member.as_str()), ("/org/a", "Do"));
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            message.values[..3],
            [text("Unhitch"), Value::Number(7), Value::List(vec![text("open"), text("Öffnen")]),]
        );
        assert_eq!(message.values[3].get("urgency"), Some(&Value::Number(1)));
        assert_eq!(message.values[3].get("desktop-entry").unwrap().as_str(), Some("unhitch"));
        assert_eq!(message.values[4].get("save").unwrap().get("description"), Some(&text("Save")));
        assert_eq!(message.values[5..], [text("/a"), Value::Number(0xffff_ffff)]);
    }

    #[test]
    fn what_is_cut_or_flipped_does_no_harm() {
        let bytes = message();
        for len in 0..bytes.len() {
            assert!(Message::parse(&bytes[..len]).is_none(), "cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = Message::parse(&flipped);
        }
    }

    #[test]
    fn hostile_types_end() {
        for signature in
            ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaay", "((((((((((((((((((((((", "a", "a()", "{", "()"]
        {
            let mut bytes = Message::call(
                "",
                "/",
                "",
                "",
                Body { signature: signature.to_owned(), bytes: vec![8; 64] },
            )
            .bytes(1);
            let _ = Message::parse(&bytes);
            bytes.truncate(bytes.len() - 1);
            assert!(Message::parse(&bytes).is_none());
        }
    }
}
