//! The words of TSDL.

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Word(&'a str),
    Number(i128),
    /// The text between quotes, as it is there.
    Text(&'a str),
    /// `{`, `;`, `:=`, `...` and so on.
    Sign(&'static str),
    End,
}

/// Reads words one after the other.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
    next: Token<'a>,
}

/// Longer ones first.
const SIGNS: [&str; 20] = [
    "...", ":=", "->", "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",", "=", ".", "-", "+",
    "*", "|",
];

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut tokens = Self { rest: text, next: Token::End };
        tokens.advance();
        tokens
    }

    /// The next word, which stays the next.
    pub fn peek(&self) -> Token<'a> {
        self.next
    }

    /// Takes the next word.
    pub fn next(&mut self) -> Token<'a> {
        let next = self.next;
        self.advance();
        next
    }

    /// Takes the next word if it is this sign.
    pub fn take(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.next, Token::Sign(next) if next == sign);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Takes the next word if it is this name.
    pub fn take_word(&mut self, word: &str) -> bool {
        let is_it = self.next == Token::Word(word);
        if is_it {
            self.advance();
        }
        is_it
    }

    fn advance(&mut self) {
        self.skip_blanks();
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let Some(first) = self.rest.chars().next() else {
            self.next = Token::End;
            return;
        };
        if first == '"' {
            let text = &self.rest[1..];
            let end = end_of_text(text);
            self.next = Token::Text(&text[..end]);
            self.rest = text.get(end + 1..).unwrap_or_default();
        } else if first.is_ascii_digit() {
            let end = self.rest.find(|it| !is_name(it)).unwrap_or(self.rest.len());
            self.next =
                number(&self.rest[..end]).map_or(Token::Word(&self.rest[..end]), Token::Number);
            self.rest = &self.rest[end..];
        } else if is_name(first) {
            let end = self.rest.find(|it| !is_name(it)).unwrap_or(self.rest.len());
            self.next = Token::Word(&self.rest[..end]);
            self.rest = &self.rest[end..];
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| self.rest.starts_with(*sign)) {
            self.next = Token::Sign(sign);
            self.rest = &self.rest[sign.len()..];
        } else {
            self.next = Token::Sign("?");
            self.rest = &self.rest[first.len_utf8()..];
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = if self.rest.starts_with("/*") {
                self.rest.find("*/").map(|at| at + 2)
            } else if self.rest.starts_with("//") {
                self.rest.find('\n')
            } else {
                return;
            };
            self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
        }
    }
}

/// The place of the quote that ends a text.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

fn number(text: &str) -> Option<i128> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8),
        None => text.parse(),
    };
    value.ok().map(i128::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_signs_and_comments() {
        let mut tokens = Tokens::new("/* a */ x := 0x10UL ... \"t\\\"u\" // z\n 010;é$");
        let mut next = || tokens.next();
        assert_eq!(next(), Token::Word("x"));
        assert_eq!(next(), Token::Sign(":="));
        assert_eq!(next(), Token::Number(16));
        assert_eq!(next(), Token::Sign("..."));
        assert_eq!(next(), Token::Text("t\\\"u"));
        assert_eq!(next(), Token::Number(8));
        assert_eq!(next(), Token::Sign(";"));
        assert_eq!(next(), Token::Word("é"));
        assert_eq!(next(), Token::Sign("?"));
        assert_eq!((next(), next()), (Token::End, Token::End));
        for open in ["\"abc", "/* abc", "\"a\\"] {
            let mut tokens = Tokens::new(open);
            tokens.next();
            assert_eq!(tokens.next(), Token::End, "{open}");
        }
    }
}
