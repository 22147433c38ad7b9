//! CTF 1.8: packets in the layout that their own metadata describe, as LTTng's do.

use super::rows::{switches, wakes};
use unhitch_formats::import::ctf;
use unhitch_model::{Format, Lack, Time, Trace, WakeFlags, Window};

/// As LTTng 2.13 writes it, shortened.
pub const METADATA: &str = r#"/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typealias integer { size = 27; align = 1; signed = false; } := uint27_t;

trace {
	major = 1;
	minor = 8;
	uuid = "00000000-0000-0000-0000-000000000000";
	byte_order = le;
	packet.header := struct {
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	};
};

env {
	hostname = "box";
	domain = "kernel";
	kernel_release = "6.1.0";
	tracer_name = "lttng-modules";
	tracer_major = 2;
	tracer_minor = 13;
};

clock {
	name = "monotonic";
	description = "Monotonic Clock";
	freq = 1000000000; /* Frequency, in Hz */
	offset = 1395000000000000000;
};

typealias integer {
	size = 27; align = 1; signed = false;
	map = clock.monotonic.value;
} := uint27_clock_monotonic_t;

typealias integer {
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
} := uint64_clock_monotonic_t;

struct packet_context {
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	unsigned long events_discarded;
	uint32_t cpu_id;
};

struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct {
			uint27_clock_monotonic_t timestamp;
		} compact;
		struct {
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		} extended;
	} v;
} align(8);

stream {
	id = 0;
	event.header := struct event_header_compact;
	packet.context := struct packet_context;
	event.context := struct {
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _tid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _pid;
		uint32_t __callstack_kernel_length;
		integer { size = 64; align = 8; signed = 0; base = 16; } _callstack_kernel[ __callstack_kernel_length ];
	};
};

event {
	name = "sched_switch";
	id = 0;
	stream_id = 0;
	fields := struct {
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _prev_comm[16];
		integer { size = 32; align = 8; signed = 1; } _prev_tid;
		integer { size = 32; align = 8; signed = 1; } _prev_prio;
		enum : integer { size = 64; align = 8; signed = 1; } { "TASK_RUNNING" = 0, "TASK_INTERRUPTIBLE" = 1, } _prev_state;
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _next_comm[16];
		integer { size = 32; align = 8; signed = 1; } _next_tid;
		integer { size = 32; align = 8; signed = 1; } _next_prio;
	};
};

event {
	name = "sched_waking";
	id = 40;
	stream_id = 0;
	fields := struct {
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _comm[16];
		integer { size = 32; align = 8; signed = 1; } _tid;
		integer { size = 32; align = 8; signed = 1; } _prio;
		integer { size = 32; align = 8; signed = 1; } _target_cpu;
	};
};

event {
	name = "irq_handler_entry";
	id = 2;
	stream_id = 0;
	fields := struct {
		integer { size = 32; align = 8; signed = 1; } _irq;
		string { encoding = UTF8; } _name;
	};
};

event {
	name = "irq_handler_exit";
	id = 3;
	stream_id = 0;
	fields := struct {
	};
};
"#;

/// A packet of the stream that the metadata describe.
#[derive(Clone, Default)]
struct Packet {
    begin: u64,
    cpu: u32,
    discarded: u64,
    events: Vec<u8>,
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

impl Packet {
    fn event(&mut self, id: u32, time: u64, current: (u32, u32), stack: &[u64]) {
        if id < 31 {
            self.events.extend(((time as u32 & 0x7ff_ffff) << 5 | id).to_le_bytes());
        } else {
            self.events.push(31);
            self.events.extend(id.to_le_bytes());
            self.events.extend(time.to_le_bytes());
        }
        for number in [current.1, current.0, stack.len() as u32] {
            self.events.extend(number.to_le_bytes());
        }
        stack.iter().for_each(|avma| self.events.extend(avma.to_le_bytes()));
    }

    fn switch(mut self, time: u64, prev: (u32, &str), state: u64, next: (u32, &str)) -> Self {
        // Two functions of LTTng's modules, and the kernel's that switched.
        let stack = [0xffff_ffff_c052_729f, 0xffff_ffff_c07c_f3f7, 0xffff_ffff_8100_0011, u64::MAX];
        self.event(0, time, (40, prev.0), &stack);
        self.events.extend(comm(prev.1));
        self.events.extend(prev.0.to_le_bytes());
        self.events.extend(20u32.to_le_bytes());
        self.events.extend(state.to_le_bytes());
        self.events.extend(comm(next.1));
        self.events.extend(next.0.to_le_bytes());
        self.events.extend((-10i32).to_le_bytes());
        self
    }

    fn waking(mut self, time: u64, waker: u32, wakee: u32) -> Self {
        self.event(40, time, (40, waker), &[]);
        self.events.extend(comm("woken"));
        for number in [wakee, 20, 1] {
            self.events.extend(number.to_le_bytes());
        }
        self
    }

    fn interrupt(mut self, time: u64, is_entry: bool) -> Self {
        self.event(if is_entry { 2 } else { 3 }, time, (40, 41), &[]);
        if is_entry {
            self.events.extend(5u32.to_le_bytes());
            self.events.extend(b"eth0\0");
        }
        self
    }

    fn bytes(&self) -> Vec<u8> {
        const HEAD: usize = 4 + 16 + 4 + 8 + 6 * 8 + 4;
        let (content, packet) = (HEAD + self.events.len(), HEAD + self.events.len() + 24);
        let mut out = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
        out.extend([0; 16 + 4 + 8]);
        for number in
            [self.begin, self.begin + 99, content as u64 * 8, packet as u64 * 8, 0, self.discarded]
        {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.cpu.to_le_bytes());
        out.extend(&self.events);
        out.resize(packet, 0);
        out
    }
}

/// Two CPUs; the first lost events between its two packets.
pub fn streams() -> [Vec<u8>; 2] {
    // The short times run over between the two events.
    let begin = (1 << 27) - 10;
    let first = Packet { begin, discarded: 7, ..Packet::default() }
        .switch(begin + 5, (0, "swapper/0"), 0, (41, "main"))
        .waking(begin + 20, 41, 43)
        .interrupt(begin + 30, true)
        .waking(begin + 31, 41, 44)
        .interrupt(begin + 40, false);
    let later = Packet { begin: begin + 5000, discarded: 7, ..Packet::default() }.switch(
        begin + 5010,
        (41, "main"),
        1,
        (0, "swapper/0"),
    );
    let other = Packet { begin, cpu: 1, ..Packet::default() }.switch(
        begin + 25,
        (0, "swapper/1"),
        0,
        (43, "worker"),
    );
    [[first.bytes(), later.bytes()].concat(), other.bytes()]
}

pub fn load(metadata: &str, streams: &[Vec<u8>]) -> Result<Trace, unhitch_formats::Error> {
    let streams: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
    ctf::load(metadata.as_bytes(), &streams, &|_| {})
}

fn check(trace: &Trace) {
    let begin = (1 << 27) - 10;
    assert_eq!(trace.meta.format, Format::Ctf);
    assert_eq!(
        switches(trace),
        [(begin + 5, 0, "R", 41), (begin + 25, 0, "R", 43), (begin + 5010, 41, "S", 0)]
    );
    assert_eq!(wakes(trace), [(begin + 20, 41, 43), (begin + 31, 41, 44)]);
    assert_eq!(trace.wakings.flags, [WakeFlags::default(), WakeFlags::HARDIRQ]);
    assert_eq!((trace.switches.prev_prio[0], trace.switches.next_prio[0]), (120, 90));
    let stack = trace.switches.stack[0];
    assert_eq!((trace.stacks.frames_of(stack).len(), trace.stacks.kernel_len(stack)), (1, 1));
    assert_eq!(trace.losses.iter().map(|loss| loss.events).collect::<Vec<_>>(), [7]);
    let main = trace.threads.incarnations(41)[0];
    assert_eq!(
        (trace.thread_name(main, Time::ZERO), trace.threads.process_of(main).pid),
        ("main", 40)
    );
    let meta = &trace.meta;
    assert_eq!((meta.host.as_str(), meta.kernel.as_str()), ("box", "6.1.0"));
    assert_eq!((meta.producer.as_str(), meta.clock_id), ("lttng-modules 2.13", Some(1)));
    assert_eq!(meta.epoch_ns, Some(1_395_000_000_000_000_000));
    assert!(meta.lacks.contains(&Lack::WakeStacks) && !meta.lacks.contains(&Lack::WaitStacks));
    assert!(!meta.lacks.contains(&Lack::WakeContexts));
}

#[test]
fn the_packets_are_read_as_their_metadata_say() {
    check(&load(METADATA, &streams()).unwrap());
}

#[test]
fn regression_stacks_begin_behind_the_functions_of_lttng() {
    let trace = load(METADATA, &streams()).unwrap();
    for stack in &trace.switches.stack {
        let frames = trace.stacks.kernel_frames(*stack);
        let addresses = frames.iter().map(|frame| trace.stacks.frame(*frame).unwrap().offset);
        assert_eq!(addresses.collect::<Vec<_>>(), [0xffff_ffff_8100_0010]);
    }
}

/// A packet counts the events that were lost until it ended, which is when there was room for the
/// next one.
#[test]
fn regression_lost_events_are_behind_those_of_the_packet_that_counts_them() {
    let trace = load(METADATA, &streams()).unwrap();
    let losses = trace.losses.iter().map(|loss| (loss.cpu, loss.window));
    let begin = (1 << 27) - 10;
    let gap = Window::new(Time::from_nanos(begin + 40), Time::from_nanos(begin + 99));
    assert_eq!(losses.collect::<Vec<_>>(), [(0, gap)]);
}

#[test]
fn a_folder_is_found_by_its_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    std::fs::create_dir_all(kernel.join("index")).unwrap();
    // The metadata, too, come in packets.
    let mut packet = 0x75d1_1d57_u32.to_le_bytes().to_vec();
    packet.extend([0; 16 + 4]);
    let bits = (37 + METADATA.len() as u32) * 8;
    packet.extend([bits, bits + 64].iter().flat_map(|bits| bits.to_le_bytes()));
    packet.extend([0, 0, 0, 1, 8]);
    packet.extend(METADATA.as_bytes());
    packet.extend([0; 8]);
    std::fs::write(kernel.join("metadata"), packet).unwrap();
    for (cpu, stream) in streams().iter().enumerate() {
        std::fs::write(kernel.join(format!("channel0_{cpu}")), stream).unwrap();
    }
    for path in [folder.path(), &kernel, &kernel.join("metadata")] {
        check(&unhitch_formats::open(path).unwrap());
    }
}

#[test]
fn what_cannot_be_read_gets_one_error() {
    for (from, to, expected) in [
        ("byte_order = le", "byte_order = be", "big-endian"),
        ("domain = \"kernel\"", "domain = \"ust\"", "UST"),
        ("uint8_t  uuid[16]", "unknown_t uuid[16]", "TSDL"),
    ] {
        let error = load(&METADATA.replace(from, to), &streams()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn types_that_take_no_space_end() {
    let nested: String = (1..40)
        .map(|level| {
            format!("struct s{level} {{ struct s{} a; struct s{} b; }};\n", level - 1, level - 1)
        })
        .collect();
    let metadata = METADATA.replace(
        "event {\n\tname = \"irq_handler_exit\"",
        &format!("struct s0 {{ }};\n{nested}event {{\n\tname = \"irq_handler_exit\""),
    );
    let metadata =
        metadata.replace("fields := struct {\n\t};", "fields := struct { struct s39 _x; };");
    let trace = load(&metadata, &streams()).unwrap();
    assert_eq!(trace.switches.len(), 3);
}

/// Each event has as many elements as bits lie before it: together, they would be the square of the
/// file's length.
#[test]
fn elements_that_take_no_space_cost_no_more_than_those_that_do() {
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 32; align = 8; } := uint32_t;
        struct nothing { };
        stream { event.header := struct { uint32_t count; struct nothing many[count]; }; };
        event { name = \"sched_switch\"; id = 0; };";
    let counts =
        |count: fn(u32) -> u32| (0..1 << 18).flat_map(|n| count(n).to_le_bytes()).collect();
    let left_out = |stream: Vec<u8>| {
        let trace = load(metadata, &[stream]).unwrap();
        let counted = trace.by_kind["sched_switch"];
        (counted, trace.warnings.lines().any(|line| line.contains("damaged or cut file")))
    };
    assert_eq!(left_out(counts(|_| 1)), (1 << 18, false));
    let (counted, is_damaged) = left_out(counts(|n| n * 32));
    assert!(counted < 100 && is_damaged, "{counted}");
    // Nor do bits become numbers without end.
    let metadata = metadata.replace("size = 32; align = 8", "size = 1; align = 1").replace(
        "uint32_t count; struct nothing many[count]",
        &format!("uint32_t many[{}]", 1 << 24),
    );
    let trace = load(&metadata, &[vec![0; 1 << 21]]).unwrap();
    assert!(trace.by_kind.is_empty(), "{:?}", trace.by_kind);
}
