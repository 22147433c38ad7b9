//! Pages of the kernel's ring buffer: `struct buffer_data_page`, `struct ring_buffer_event`.

use crate::cursor::Cursor;

/// Where the parts of a page are, by the kernel's own description.
#[derive(Clone, Copy)]
pub(super) struct PageLayout {
    commit_offset: usize,
    data_offset: usize,
}

impl PageLayout {
    /// From the text of `events/header_page`; that of a 64-bit kernel if it lacks something.
    pub fn of(header_page: &str) -> Self {
        let offset = |name: &str| {
            let is_of = |line: &&str| {
                let declared = line.split(';').next().unwrap_or_default();
                declared.split_whitespace().next_back() == Some(name)
            };
            let line = header_page.lines().find(is_of)?;
            line.split("offset:").nth(1)?.split(';').next()?.trim().parse::<usize>().ok()
        };
        let small = |offset: usize| (offset <= 64).then_some(offset);
        Self {
            commit_offset: offset("commit").and_then(small).unwrap_or(8),
            data_offset: offset("data").and_then(small).unwrap_or(16),
        }
    }
}

/// One event of a page.
pub(super) struct RawEvent<'a> {
    pub time: u64,
    /// Its fields, from the common ones on.
    pub data: &'a [u8],
}

/// The events of one page.
pub(super) struct Page<'a> {
    time: u64,
    rest: Cursor<'a>,
    /// Events that are missing before this page; 0 if their number is not known, `None` if none is.
    pub missed: Option<u64>,
}

impl<'a> Page<'a> {
    /// Reads a page's head; `None` if it is too short, or empty.
    pub fn new(bytes: &'a [u8], layout: PageLayout) -> Option<Self> {
        /// The length of the events; above it are flags.
        const LEN_MASK: u64 = (1 << 27) - 1;
        const HAS_MISSED: u64 = 1 << 31;
        const COUNTS_MISSED: u64 = 1 << 30;
        let time = Cursor::new(bytes).u64()?;
        let commit = Cursor::new(bytes.get(layout.commit_offset..)?).u64()?;
        let data = bytes.get(layout.data_offset..)?;
        // A 32-bit kernel has 4 bytes there, and its events behind them.
        let commit = if layout.data_offset < 16 { commit & 0xffff_ffff } else { commit };
        let len = usize::try_from(commit & LEN_MASK).ok()?;
        let events = &data[..len.min(data.len())];
        let counted = || Cursor::new(data.get(len..)?).u64();
        let missed = (commit & HAS_MISSED != 0)
            .then(|| if commit & COUNTS_MISSED == 0 { 0 } else { counted().unwrap_or(0) });
        Some(Self { time, rest: Cursor::new(events), missed })
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = RawEvent<'a>;

    fn next(&mut self) -> Option<RawEvent<'a>> {
        const LONG: u32 = 0;
        const PADDING: u32 = 29;
        const TIME_EXTEND: u32 = 30;
        const TIME_STAMP: u32 = 31;
        const DELTA_BITS: u32 = 27;
        loop {
            let head = self.rest.u32()?;
            let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
            match kind {
                PADDING if delta == 0 => return None,
                PADDING => {
                    let len = self.rest.u32()? as usize;
                    self.rest.bytes(len.saturating_sub(4))?;
                    self.time = self.time.wrapping_add(delta);
                }
                TIME_EXTEND => {
                    let high = u64::from(self.rest.u32()?) << DELTA_BITS;
                    self.time = self.time.wrapping_add(high | delta);
                }
                TIME_STAMP => {
                    // The upper 5 bits are those of the time before.
                    const MASK: u64 = (1 << 59) - 1;
                    let low = u64::from(self.rest.u32()?) << DELTA_BITS | delta;
                    let mut time = self.time & !MASK | low & MASK;
                    if time < self.time && self.time & !MASK != 0 {
                        time = time.wrapping_add(MASK + 1);
                    }
                    self.time = time;
                }
                kind => {
                    let len = match kind {
                        LONG => (self.rest.u32()? as usize).checked_sub(4)?.next_multiple_of(4),
                        words => words as usize * 4,
                    };
                    self.time = self.time.wrapping_add(delta);
                    return Some(RawEvent { time: self.time, data: self.rest.bytes(len)? });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { commit_offset: 8, data_offset: 16 };

    fn page(flags: u64, events: &[u32], after: &[u64]) -> Vec<u8> {
        let len = events.len() as u64 * 4;
        let mut page = [1000u64.to_le_bytes(), (len | flags).to_le_bytes()].concat();
        page.extend(events.iter().flat_map(|word| word.to_le_bytes()));
        page.extend(after.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    #[test]
    fn times_add_up() {
        let events = [
            5 << 5 | 1,
            7, // 1005: one word
            6 << 5 | 30,
            1, // 2^27 + 6 later
            2 << 5 | 2,
            8,
            9, // two words
            3 << 5,
            12,
            1,
            2, // a long one
            9 << 5 | 31,
            0, // absolute: 9
            1 << 5 | 1,
            4,  // 10
            29, // nothing more
        ];
        let bytes = page(0, &events, &[]);
        let found: Vec<(u64, usize)> = Page::new(&bytes, LAYOUT)
            .unwrap()
            .map(|event| (event.time, event.data.len()))
            .collect();
        let later = 1005 + (1 << 27) + 6 + 2;
        assert_eq!(found, [(1005, 4), (later, 8), (later + 3, 8), (10, 4)]);
    }

    #[test]
    fn missed_events_are_counted_where_the_kernel_does() {
        let missed = |bytes: &[u8]| Page::new(bytes, LAYOUT).unwrap().missed;
        assert_eq!(missed(&page(0, &[1, 2], &[7])), None);
        assert_eq!(missed(&page(1 << 31, &[1, 2], &[7])), Some(0));
        assert_eq!(missed(&page(3 << 30, &[1, 2], &[7])), Some(7));
        assert_eq!(missed(&page(3 << 30, &[1, 2], &[])), Some(0));
    }

    #[test]
    fn a_cut_page_ends_early() {
        let bytes = page(0, &[1 << 5 | 3, 1, 2, 3, 1 << 5, 0], &[]);
        for len in 0..bytes.len() {
            let count = Page::new(&bytes[..len], LAYOUT).map_or(0, Iterator::count);
            assert_eq!(count, usize::from(len >= 32), "{len}");
        }
    }

    #[test]
    fn a_32_bit_kernels_pages_are_read() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        let mut bytes = 9u64.to_le_bytes().to_vec();
        bytes.extend([8u32, 1 << 5 | 1, 7].iter().flat_map(|word| word.to_le_bytes()));
        let page = Page::new(&bytes, PageLayout::of(text)).unwrap();
        assert_eq!(page.map(|event| event.time).collect::<Vec<_>>(), [10]);
    }
}
