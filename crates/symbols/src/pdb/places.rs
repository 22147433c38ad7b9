//! [`Places`]: the places that want a name, while symbols go by.

use super::msf::Bytes;
use super::sections::{Section, section};

const S_PUB32: u16 = 0x110e;
/// Functions of a module: local, global, and both with ids of types.
const PROCEDURES: [u16; 4] = [0x110f, 0x1110, 0x1146, 0x1147];
/// A public symbol of a function is believed at most so far behind its start.
const MAX_PUBLIC_LEN: u32 = 1 << 20;

/// A place with what is known of it.
struct Place {
    rva: u32,
    /// Its number in the question.
    number: usize,
    procedure: Option<String>,
    /// Of the public symbols that no earlier place has seen: the one nearest before this place.
    public: Option<(u32, String)>,
}

/// By RVA.
pub(super) struct Places {
    list: Vec<Place>,
    count: usize,
}

impl Places {
    /// Of the RVAs, those that are not in the source get no name.
    pub(super) fn new(rvas: impl Iterator<Item = Option<u32>>) -> Self {
        let mut count = 0;
        let place = |(number, rva): (usize, Option<u32>)| {
            count = number + 1;
            Some(Place { rva: rva?, number, procedure: None, public: None })
        };
        let mut list: Vec<Place> = rvas.enumerate().filter_map(place).collect();
        list.sort_by_key(|place| place.rva);
        Self { list, count }
    }

    pub(super) fn rvas(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|place| place.rva)
    }

    /// Names the places inside the functions of a module.
    pub(super) fn add_procedures(&mut self, symbols: &[u8], sections: &[Section]) {
        for (kind, body) in records(symbols) {
            if PROCEDURES.contains(&kind) {
                let _ = self.add_procedure(body, sections);
            }
        }
    }

    fn add_procedure(&mut self, body: &[u8], sections: &[Section]) -> Option<()> {
        let mut body = Bytes(body);
        body.take(12)?;
        let len = body.u32()?;
        body.take(12)?;
        let (offset, number) = (body.u32()?, body.u16()?);
        body.take(1)?;
        let start = section(sections, number)?.rva(offset)?;
        let from = self.list.partition_point(|place| place.rva < start);
        let inside =
            self.list.get_mut(from..)?.iter_mut().take_while(|place| place.rva - start < len);
        let mut name = None;
        for place in inside {
            // Functions do not overlap; of two that claim to, the first one in the file counts.
            let name = name.get_or_insert_with(|| {
                body.text().map(|text| String::from_utf8_lossy(text).into_owned())
            });
            place.procedure = place.procedure.take().or_else(|| name.clone());
        }
        Some(())
    }

    /// Names the places behind public symbols of code.
    pub(super) fn add_publics(&mut self, symbols: &[u8], sections: &[Section]) {
        for (kind, body) in records(symbols) {
            if kind == S_PUB32 {
                let _ = self.add_public(body, sections);
            }
        }
    }

    fn add_public(&mut self, body: &[u8], sections: &[Section]) -> Option<()> {
        let mut body = Bytes(body);
        body.take(4)?;
        let (offset, number) = (body.u32()?, body.u16()?);
        let start = section(sections, number).filter(|section| section.executable)?.rva(offset)?;
        let next = self.list.partition_point(|place| place.rva < start);
        let place = self.list.get_mut(next)?;
        // Of several names of one place, the first one in the alphabet: the file's order is that of
        // a hash.
        let name = || body.clone().text().map(|text| String::from_utf8_lossy(text).into_owned());
        let better = match &place.public {
            None => true,
            Some((known, _)) if *known != start => *known < start,
            Some((_, known)) => name().is_some_and(|name| name < *known),
        };
        if better {
            place.public = Some((start, name()?));
        }
        Some(())
    }

    /// The name of each place, in the order of the question.
    pub(super) fn into_names(self) -> Vec<Option<String>> {
        let mut names = vec![None; self.count];
        let mut before: Option<(u32, String)> = None;
        for place in self.list {
            if place.public.is_some() {
                before = place.public;
            }
            let public = before
                .as_ref()
                .filter(|(start, _)| place.rva - start < MAX_PUBLIC_LEN)
                .map(|(_, name)| name.clone());
            if let Some(name) = names.get_mut(place.number) {
                *name = place.procedure.or(public).filter(|name| !name.is_empty());
            }
        }
        names
    }
}

/// Kind and body of each record; ends where they stop to make sense.
fn records(symbols: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = Bytes(symbols);
    std::iter::from_fn(move || {
        let len = usize::from(rest.u16()?);
        let mut record = Bytes(rest.take(len)?);
        Some((record.u16()?, record.0))
    })
}
