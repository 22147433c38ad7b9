//! Interned strings.

use crate::NameId;
use rustc_hash::FxHashMap;

/// Every name of a trace, stored once. Id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    texts: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, NameId>,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self { texts: Vec::new(), ids: FxHashMap::default() };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// The id of `text`, stored if new.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = NameId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    /// The id of `text`, if it is interned.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }

    /// Replaces the texts for which `rewrite` returns another one. Ids stay, and two ids may have
    /// the same text afterwards.
    pub(crate) fn rewrite(&mut self, rewrite: impl Fn(&str) -> Option<String>) {
        for (index, text) in self.texts.iter_mut().enumerate() {
            let Some(new) = rewrite(text) else { continue };
            self.ids.remove(text);
            *text = new.into();
            self.ids.entry(text.clone()).or_insert(NameId(index as u32));
        }
    }

    /// How many there are, the empty one included.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The text of `id`; empty for an id of another trace.
    pub fn get(&self, id: NameId) -> &str {
        self.texts.get(id.index()).map_or("", |text| text)
    }
}
