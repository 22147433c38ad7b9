//! The twelve causes.

/// How a cause makes the editor hang.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// A thread of the same program holds a lock and computes.
    Hold,
    /// It holds a lock and waits for the disk.
    HoldDisk,
    /// The main thread itself computes.
    Compute,
    /// The main thread itself waits for the disk.
    Disk,
    /// The main thread itself sleeps.
    Sleep,
    /// Another program computes its reply.
    Reply,
}

/// A cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause {
    /// Its name in the truth.
    pub name: &'static str,
    /// How it makes the editor hang.
    pub how: How,
    /// The pattern that an answer must name.
    pub pattern: &'static str,
    /// The function that is to blame: on the stack of who computes, or of who waits.
    pub function: &'static str,
    /// What the main thread was about to do.
    pub operation: &'static str,
    /// How often it happens, of a thousand recordings: in version 1 and in version 2.
    pub per_mille: [u64; 2],
    /// How long the hang takes, milliseconds: at least, and less than.
    pub ms: (u64, u64),
}

const fn cause(
    (name, how, pattern): (&'static str, How, &'static str),
    (function, operation): (&'static str, &'static str),
    per_mille: [u64; 2],
    ms: (u64, u64),
) -> Cause {
    Cause { name, how, pattern, function, operation, per_mille, ms }
}

/// All causes, the most frequent first. Together they are in 780 of 1,000 recordings of version 1,
/// and in 850 of version 2. `index_rebuild` is the regression of version 2; `autosave` was cured.
pub const CAUSES: [Cause; 12] = [
    cause(
        ("index_rebuild", How::Hold, "long_hold"),
        ("Index::rebuild", "Document::search"),
        [20, 260],
        (400, 900),
    ),
    cause(
        ("autosave", How::Disk, "io_wait"),
        ("Document::autosave", "Editor::tick"),
        [220, 50],
        (300, 700),
    ),
    cause(
        ("layout", How::Compute, "cpu_bound"),
        ("Layout::reflow", "Editor::paint"),
        [130, 130],
        (250, 600),
    ),
    cause(
        ("history", How::Hold, "long_hold"),
        ("History::compact", "Document::undo"),
        [90, 90],
        (200, 500),
    ),
    cause(
        ("spelling", How::Reply, "cpu_bound"),
        ("Speller::check_all", "Document::spell"),
        [80, 80],
        (200, 600),
    ),
    cause(
        ("thumbnails", How::HoldDisk, "long_hold"),
        ("Cache::store_thumbnail", "Cache::lookup"),
        [70, 70],
        (200, 500),
    ),
    cause(
        ("config", How::Hold, "long_hold"),
        ("Config::merge_all", "Config::read"),
        [50, 50],
        (150, 400),
    ),
    cause(
        ("retry", How::Sleep, "timer_sleep"),
        ("Network::retry_pause", "Sync::pull"),
        [40, 40],
        (200, 300),
    ),
    cause(
        ("highlight", How::Compute, "cpu_bound"),
        ("Highlight::backtrack", "Editor::paint"),
        [30, 30],
        (300, 1_700),
    ),
    cause(
        ("font_load", How::Disk, "io_wait"),
        ("Fonts::load_all", "Editor::open"),
        [20, 20],
        (150, 300),
    ),
    cause(
        ("plugin_scan", How::Hold, "long_hold"),
        ("Plugins::rescan", "Plugins::call"),
        [20, 20],
        (150, 400),
    ),
    cause(
        ("clipboard", How::Reply, "cpu_bound"),
        ("Clipboard::convert_image", "Editor::paste"),
        [10, 10],
        (150, 300),
    ),
];
