//! [`Lookups`]: the RVAs to name. The symbols are walked past them once.

use super::msf::Bytes;
use super::sections::{Section, section};

const S_PUB32: u16 = 0x110e;
/// Functions of a module: local, global, and both with ids of types.
const PROCEDURES: [u16; 4] = [0x110f, 0x1110, 0x1146, 0x1147];
/// Maximum distance from a public symbol to an RVA that it names, bytes.
const MAX_PUBLIC_LEN: u32 = 1 << 20;

/// An RVA with the names found so far.
struct Lookup {
    rva: u32,
    /// Its index in the request.
    number: usize,
    procedure: Option<String>,
    /// The nearest public symbol between the lookup before this one and this one.
    public: Option<(u32, String)>,
}

/// The lookups, by RVA.
pub(super) struct Lookups {
    list: Vec<Lookup>,
    count: usize,
}

impl Lookups {
    /// Lookups for these RVAs. `None` stands for added code, which has no name.
    pub(super) fn new(rvas: impl Iterator<Item = Option<u32>>) -> Self {
        let mut count = 0;
        let lookup = |(number, rva): (usize, Option<u32>)| {
            count = number + 1;
            Some(Lookup { rva: rva?, number, procedure: None, public: None })
        };
        let mut list: Vec<Lookup> = rvas.enumerate().filter_map(lookup).collect();
        list.sort_by_key(|lookup| lookup.rva);
        Self { list, count }
    }

    pub(super) fn rvas(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|lookup| lookup.rva)
    }

    /// Names the lookups inside a module's functions.
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
        let from = self.list.partition_point(|lookup| lookup.rva < start);
        let inside =
            self.list.get_mut(from..)?.iter_mut().take_while(|lookup| lookup.rva - start < len);
        let mut name = None;
        for lookup in inside {
            // Functions do not overlap. If two claim to, the first one in the file counts.
            let name = name.get_or_insert_with(|| {
                body.text().map(|text| String::from_utf8_lossy(text).into_owned())
            });
            lookup.procedure = lookup.procedure.take().or_else(|| name.clone());
        }
        Some(())
    }

    /// Names the lookups behind public symbols in code.
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
        let next = self.list.partition_point(|lookup| lookup.rva < start);
        let lookup = self.list.get_mut(next)?;
        // If an RVA has several names, the alphabetically first one counts, because the file's
        // order is that of a hash.
        let name = || body.clone().text().map(|text| String::from_utf8_lossy(text).into_owned());
        let better = match &lookup.public {
            None => true,
            Some((known, _)) if *known != start => *known < start,
            Some((_, known)) => name().is_some_and(|name| name < *known),
        };
        if better {
            lookup.public = Some((start, name()?));
        }
        Some(())
    }

    /// The name of each lookup, in the order of the request.
    pub(super) fn into_names(self) -> Vec<Option<String>> {
        let mut names = vec![None; self.count];
        let mut before: Option<(u32, String)> = None;
        for lookup in self.list {
            if lookup.public.is_some() {
                before = lookup.public;
            }
            let public = before
                .as_ref()
                .filter(|(start, _)| lookup.rva - start < MAX_PUBLIC_LEN)
                .map(|(_, name)| name.clone());
            if let Some(name) = names.get_mut(lookup.number) {
                *name = lookup.procedure.or(public).filter(|name| !name.is_empty());
            }
        }
        names
    }
}

/// The kind and body of each record, up to the first invalid one.
fn records(symbols: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = Bytes(symbols);
    std::iter::from_fn(move || {
        let len = usize::from(rest.u16()?);
        let mut record = Bytes(rest.take(len)?);
        Some((record.u16()?, record.0))
    })
}
