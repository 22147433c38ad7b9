//! Numbers of the fields and values that we write, from Perfetto's `protos/perfetto/trace`.

/// `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const FTRACE_EVENTS: u32 = 1;
    pub(in super::super) const PROCESS_TREE: u32 = 2;
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED_DATA: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const SYSTEM_INFO: u32 = 45;
    pub(in super::super) const DEFAULTS: u32 = 59;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(in super::super) const STACK_SAMPLE: u32 = 135;
}

/// `DebugAnnotation`.
pub(super) mod annotation {
    pub(in super::super) const NUMBER: u32 = 3;
    pub(in super::super) const TEXT: u32 = 6;
    pub(in super::super) const NAME: u32 = 10;
    /// Of a dictionary.
    pub(in super::super) const ENTRIES: u32 = 11;
    /// Of a list.
    pub(in super::super) const VALUES: u32 = 12;
}

/// The id of the track "Unhitch", which has ours below it. Their ids follow.
pub(super) const ROOT: u64 = 0x756e_6869_7463_6800;

/// `InternedData`.
pub(super) mod interned {
    pub(in super::super) const FUNCTION_NAMES: u32 = 5;
    pub(in super::super) const FRAMES: u32 = 6;
    pub(in super::super) const CALLSTACKS: u32 = 7;
    pub(in super::super) const BUILD_IDS: u32 = 16;
    pub(in super::super) const MAPPING_PATHS: u32 = 17;
    pub(in super::super) const SOURCE_PATHS: u32 = 18;
    pub(in super::super) const MAPPINGS: u32 = 19;
}

/// `TrackEvent`.
pub(super) mod track_event {
    pub(in super::super) const ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const TRACK: u32 = 11;
    pub(in super::super) const CATEGORIES: u32 = 22;
    pub(in super::super) const NAME: u32 = 23;
    pub(in super::super) const FLOW_IDS: u32 = 47;
    pub(in super::super) const CALLSTACK: u32 = 56;

    pub(in super::super) const SLICE_BEGIN: u64 = 1;
    pub(in super::super) const SLICE_END: u64 = 2;
    pub(in super::super) const INSTANT: u64 = 3;
}
