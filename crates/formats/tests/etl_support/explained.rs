//! Every difference between a field as TraceEvent prints it and as we read it, as data.
//!
//! TraceEvent prints its own words for numbers, computes fields from others, shows fields of newer
//! versions that an event does not have, and is wrong about a few.

use unhitch_model::{Trace, Value};

/// Why a printed field is not the one that we read, and what it must then be.
pub enum Why {
    /// Computed from what we read: the same text must come out.
    Computed(fn(&View<'_>) -> Option<String>),
    /// Of a newer version than the event: printed as this, and we must not have it.
    NotInPayload(&'static str),
    /// Neither in the payload nor computed from it; the text names the source.
    FromElsewhere(&'static str),
}

use Why::{Computed, FromElsewhere, NotInPayload};

/// An event of ours.
pub struct View<'a> {
    pub trace: &'a Trace,
    pub event: usize,
    pub printed_pid: &'a str,
}

impl View<'_> {
    fn fields(&self) -> Vec<(String, Value<'_>)> {
        let name = |(name, value)| (self.trace.name(name).to_owned(), value);
        self.trace.events.fields(self.event).into_iter().map(name).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.fields().into_iter().find(|(field, _)| field == name).and_then(
            |(_, value)| match value {
                Value::Signed(n) => Some(n as u64),
                value => value.as_u64(),
            },
        )
    }

    fn text(&self, name: &str) -> Option<String> {
        self.fields()
            .into_iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.to_string())
    }

    /// A field of the first element of the event's list.
    fn first(&self, name: &str) -> Option<String> {
        let list = self
            .fields()
            .into_iter()
            .find_map(|(_, value)| if let Value::List(list) = value { Some(list) } else { None })?;
        let Value::Struct(members) = list.into_iter().next()? else { return None };
        members.into_iter().find(|(field, _)| self.trace.name(*field) == name).map(|(_, value)| {
            match value {
                Value::Unsigned(n) | Value::Hex(n) => format!("{n:#010x}"),
                value => value.to_string(),
            }
        })
    }
}

fn ms(view: &View<'_>) -> Option<String> {
    let elapsed = view.fields().into_iter().find(|(name, _)| name == "ElapsedMs")?.1.as_f64()?;
    // It rounds half up, of ticks of 100 ns.
    let us = ((elapsed * 10_000.0).round() as u64 + 5) / 10;
    Some(format!("{}.{:03}", us / 1000, us % 1000))
}

/// Seconds since 1970 as a date.
fn build_time(view: &View<'_>) -> Option<String> {
    let seconds = u64::from(view.number("TimeDateStamp")? as u32);
    Some(
        Value::FileTime(116_444_736_000_000_000 + seconds * 10_000_000)
            .to_string()
            .replace('-', "/")[2..]
            .to_owned(),
    )
}

/// As this machine's volumes were called.
fn dos_path(view: &View<'_>) -> Option<String> {
    let path = view.text("FileName")?;
    for (nt, dos) in [
        ("\\Device\\HarddiskVolume2\\", "C:\\"),
        ("\\SystemRoot\\", "C:\\Windows\\"),
        ("\\Windows\\", "C:\\Windows\\"),
        ("\\Device\\Mup\\", "\\\\"),
        ("\\??\\", ""),
    ] {
        if let Some(rest) = path.strip_prefix(nt) {
            return Some(format!("{dos}{rest}"));
        }
    }
    Some(path)
}

fn sum(view: &View<'_>, field: &str) -> Option<String> {
    let all =
        (0..5).map(|generation| view.number(&format!("{field}{generation}"))).collect::<Vec<_>>();
    Some(unhitch_model::units::count(all.into_iter().flatten().sum()))
}

fn bits(value: u64, names: &[(u64, &str)]) -> String {
    let set: Vec<&str> =
        names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { "None".to_owned() } else { set.join(", ") }
}

fn irp_flags(view: &View<'_>) -> Option<String> {
    Some(bits(
        view.number("IrpFlags")? & 0x1_ffff,
        &[(1, "Nocache"), (2, "MountCompletion"), (0x40, "SynchronousPagingIO")],
    ))
}

/// TraceEvent's words for numbers: field, number, word.
const WORDS: &[(&str, u64, &str)] = &[
    ("AllocationKind", 0, "Small"),
    ("AssemblyFlags", 0, "None"),
    ("BucketKind", 1, "PlugsInCondemned"),
    ("CompactMechanisms", 0, "not_specified"),
    ("CompactMechanisms", 0x8000_0002, "compact_high_frag"),
    ("CompactMechanisms", 0x8000_0008, "compact_loh_forced"),
    ("ExpandMechanisms", 0, "not_specified"),
    ("Flags", 0, "None"),
    ("Flags", 4, "Protected"),
    ("GlobalMechanisms", 20, "Promotion, CardBundles"),
    ("GlobalMechanisms", 30, "Compaction, Promotion, Demotion, CardBundles"),
    ("keywords", 16_852_751, "Process|Thread|ImageLoad"),
    ("stacks", 16_852_751, "Process|Thread|ImageLoad"),
    ("PauseMode", 1, "Interactive"),
    ("Reason", 0, "AllocSmall"),
    ("Reason", 1, "Induced"),
    ("Reason", 1, "SuspendForGC"),
    ("ReasonCode", 0, "START_BIND"),
    ("ReasonCode", 9, "REJECT_IL_SIG"),
    ("ShareAccess", 7, "ReadWrite, Delete"),
    ("Sku", 1, "DesktopClr"),
    ("Sku", 2, "CoreClr"),
    ("StartupMode", 0, "None"),
    ("Type", 0, "NonConcurrentGC"),
    ("Type", 0, "SmallObjectHeap"),
    ("Type", 1, "LargeObjectHeap"),
    ("Type", 3, "PinnedObjectHeap"),
];

/// By the end of the printed kind of event, and the field.
const EXPLAINED: &[(&str, &str, Why)] = &[
    ("", "BuildTime", Computed(build_time)),
    ("Image/DCStart", "FileName", Computed(dos_path)),
    ("Image/DCStop", "FileName", Computed(dos_path)),
    ("Image/Load", "FileName", Computed(dos_path)),
    ("Image/Unload", "FileName", Computed(dos_path)),
    // It takes the process in the payload for the event's, and prints 0 for those of the kernel.
    (
        "ImageID",
        "ProcessID",
        Computed(|view| (view.text("ProcessID")? == view.printed_pid).then(|| "0".to_owned())),
    ),
    ("GC/AllocationTick", "ObjectSize", NotInPayload("0")),
    (
        "GC/FinalizeObject",
        "TypeName",
        FromElsewhere("it looks up the TypeID among the BulkType events"),
    ),
    ("GC/HeapStats", "Depth", FromElsewhere("it is the Depth of the GC/Start event before")),
    ("GC/HeapStats", "TotalHeapSize", Computed(|view| sum(view, "GenerationSize"))),
    ("GC/HeapStats", "TotalPromoted", Computed(|view| sum(view, "TotalPromotedSize"))),
    ("GC/HeapStats", "GenerationSize4", NotInPayload("0")),
    ("GC/HeapStats", "TotalPromotedSize4", NotInPayload("0")),
    ("GC/Start", "ClientSequenceNumber", NotInPayload("0")),
    (
        "",
        "ModuleILFileName",
        Computed(|view| view.text("ModuleILPath")?.rsplit('\\').next().map(str::to_owned)),
    ),
    ("", "ReJITID", NotInPayload("0")),
    ("", "OptimizationTier", NotInPayload("Unknown")),
    ("Type/BulkType", "TypeID_0", Computed(|view| view.first("TypeID"))),
    ("Type/BulkType", "TypeName_0", Computed(|view| view.first("Name"))),
    ("Kernel-File/Create", "IrpPtr", Computed(|view| view.text("Irp"))),
    (
        "Kernel-File/Create",
        "FileAttributes",
        Computed(|view| Some(view.number("CreateAttributes")?.to_string())),
    ),
    (
        "Kernel-File/Create",
        "CreateOptions",
        Computed(|view| match view.number("CreateOptions")? & 0xff_ffff {
            0x20 => Some("FILE_ATTRIBUTE_ARCHIVE".to_owned()),
            options => Some(options.to_string()),
        }),
    ),
    (
        "Kernel-File/Create",
        "CreateDisposition",
        Computed(|view| {
            (view.number("CreateOptions")? >> 24 == 1).then(|| "OPEN_EXISTING".to_owned())
        }),
    ),
    ("Kernel-File/Create", "FileName", Computed(dos_path)),
    (
        "ManifestData",
        "PayloadLength",
        Computed(|view| Some((view.trace.events.payload(view.event).len()).to_string())),
    ),
    ("", "ElapsedTimeMSec", Computed(ms)),
    // The part of it after the disk was done with the transfer before; here there is none.
    ("", "DiskServiceTimeMSec", Computed(ms)),
    ("", "IrpFlags", Computed(irp_flags)),
    (
        "DiskIO/Read",
        "Priority",
        Computed(|view| {
            ["Notset", "Verylow", "Low", "Normal"]
                .get((view.number("IrpFlags")? >> 17 & 7) as usize)
                .map(|&word| word.to_owned())
        }),
    ),
    (
        "DiskIO/Write",
        "Priority",
        Computed(|view| {
            ["Notset", "Verylow", "Low", "Normal"]
                .get((view.number("IrpFlags")? >> 17 & 7) as usize)
                .map(|&word| word.to_owned())
        }),
    ),
    (
        "PerfInfo/Sample",
        "ProcessorNumber",
        Computed(|view| Some(view.trace.events.cpu[view.event].to_string())),
    ),
    (
        "PerfInfo/Sample",
        "Priority",
        Computed(|view| Some((view.number("Flags")? >> 3).to_string())),
    ),
    (
        "PerfInfo/Sample",
        "ExecutingDPC",
        Computed(|view| {
            Some(if view.number("Flags")? & 1 != 0 { "True" } else { "False" }.to_owned())
        }),
    ),
    (
        "PerfInfo/Sample",
        "ExecutingISR",
        Computed(|view| {
            Some(if view.number("Flags")? & 2 != 0 { "True" } else { "False" }.to_owned())
        }),
    ),
    // The name of the process with that id, without its ending.
    (
        "SystemConfig/Services",
        "ProcessName",
        Computed(|view| match (view.number("ProcessID")?, view.text("ProcessName")?) {
            (0, name) if name.is_empty() => Some("Idle".to_owned()),
            (_, name) => name.strip_suffix(".exe").map(str::to_owned),
        }),
    ),
    (
        "Thread/Start",
        "ParentThreadID",
        Computed(|view| {
            Some(unhitch_model::units::count(u64::from(
                view.trace.threads.get(view.trace.events.thread[view.event]).tid,
            )))
        }),
    ),
    (
        "Thread/Start",
        "ParentProcessID",
        Computed(|view| {
            Some(unhitch_model::units::count(u64::from(
                view.trace.threads.process_of(view.trace.events.thread[view.event]).pid,
            )))
        }),
    ),
    ("Thread/Stop", "ParentThreadID", NotInPayload("-1")),
    ("Thread/Stop", "ParentProcessID", NotInPayload("-1")),
    // It reads the newer payload by the oldest layout: what it takes for a pointer is the process
    // and the size.
    (
        "UdpIp/Recv",
        "context",
        Computed(|view| Some(format!("{:#x}", view.number("size")? << 32 | view.number("PID")?))),
    ),
    (
        "UdpIp/Send",
        "context",
        Computed(|view| Some(format!("{:#x}", view.number("size")? << 32 | view.number("PID")?))),
    ),
    ("UdpIp/Recv", "dsize", Computed(|view| Some((view.number("seqnum")? & 0xffff).to_string()))),
    ("UdpIp/Send", "dsize", Computed(|view| Some((view.number("seqnum")? & 0xffff).to_string()))),
    (
        "PrimitiveTypesTest",
        "system_time_type",
        FromElsewhere(
            "it errs in the fractions of SYSTEMTIME: the same event's FILETIME, which it prints right, has ours",
        ),
    ),
];

/// How a difference is explained.
#[derive(PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is the same, in other words or computed, or in neither.
    Same,
    /// It is from elsewhere, with the reason.
    Elsewhere(&'static str),
    /// Nothing explains it.
    Unexplained,
}

/// Whether a word is TraceEvent's for a number.
pub fn is_word(field: &str, number: u64, printed: &str) -> bool {
    WORDS.iter().any(|(name, value, word)| {
        *name == field && *value == number && super::cut(word) == super::cut_again(printed)
    })
}

/// The explanation of a field that is not printed as ours reads; `ours` is the number that we have,
/// if any.
pub fn explain(
    kind: &str,
    field: &str,
    printed: &str,
    ours: Option<u64>,
    has_field: bool,
    view: &View<'_>,
) -> Verdict {
    if !has_field && printed.is_empty()
        || ours.is_some_and(|number| is_word(field, number, printed))
    {
        return Verdict::Same;
    }
    for (end, name, why) in EXPLAINED {
        if !kind.ends_with(end) || *name != field {
            continue;
        }
        match why {
            Computed(compute) if compute(view).is_some_and(|text| super::cut(&text) == printed) => {
                return Verdict::Same;
            }
            NotInPayload(default) if *default == printed && !has_field => return Verdict::Same,
            FromElsewhere(why) => return Verdict::Elsewhere(why),
            _ => {}
        }
    }
    Verdict::Unexplained
}
