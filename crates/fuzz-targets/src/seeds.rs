//! Seeds: small valid inputs, made by the writers.
//!
//! ELF files cannot be made here. Their seeds are small compiled programs in the kept corpus
//! (docs/fuzzing.md).

use crate::{import_seeds, perf, perf_records, zips};
use unhitch_etl_writer::{
    Bytes, CSwitch, Compression, Guid, Image, Interrupt, KernelEvent, Options, Pdb, Procedure,
    Process, Public, ReadyThread, Rundown, StackCache, ThreadFacts, Writer, metadata, uiforetw,
    win32k,
};

/// The seeds of `target`; empty for targets that only have kept inputs.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let records = perf_records::perf_records();
    match target {
        "perf_data" => vec![perf::file(&records), [perf::pipe_head(), records].concat(), packed()],
        "perf_records" | "answers" => {
            vec![[&[0][..], &records].concat(), [&[1][..], &records].concat()]
        }
        "ctf" => vec![import_seeds::ctf()],
        "perf_script" => vec![import_seeds::PERF_SCRIPT.as_bytes().to_vec()],
        "perfetto" => import_seeds::perfetto(),
        "trace_dat" => vec![import_seeds::trace_dat(6), import_seeds::trace_dat(7)],
        "hitch" => vec![zips::container(&[]), zips::container(&TEXTS), etl_in_zip()],
        "hitch_parts" => vec![TEXTS.join(&0)],
        "tracepoint" => {
            let data = perf::tracing_data();
            let texts = data.events.iter().map(|(_, text)| text.clone().into_bytes());
            let mut less = data.clone();
            less.events.truncate(2);
            texts.chain([data.encode(), less.encode()]).collect()
        }
        "etl" => [Compression::Plain, Compression::All]
            .into_iter()
            .flat_map(|packed| [8, 4].map(|width| etl(packed, width)))
            .collect(),
        "etl_events" => etl_events(),
        "etl_manifest" => vec![MANIFEST.as_bytes().to_vec()],
        "etl_schema" => schemas(),
        "xpress" => [vec![7; 300], (0..200).collect(), b"abcabcabcabdabcabcabcabd".repeat(9)]
            .map(|bytes: Vec<u8>| {
                let len = u16::try_from(bytes.len()).expect("a short text").to_le_bytes();
                [&len[..], &unhitch_etl_writer::compress(&bytes)].concat()
            })
            .to_vec(),
        "pdb" => vec![pdb(true), pdb(false)],
        "perf_map" => PERF_MAPS.iter().map(|text| text.as_bytes().to_vec()).collect(),
        "kallsyms" => vec![b"ffffffff81000000 T _stext\nffffffff81000000 t first\nffffffff81000100 W weak\t[mod]\n0 A zero\n".to_vec()],
        "demangle" => NAMES.iter().map(|name| name.as_bytes().to_vec()).collect(),
        "wait_rules" => vec![RULES.as_bytes().to_vec()],
        _ => Vec::new(),
    }
}

const TEXTS: [&[u8]; 3] = [
    br#"{"version":1,"producer":"p","host":"h","kernel":"6.18","arch":"x86_64","cpus":2,"memory_bytes":1,"clock":"monotonic",
"epoch_ns":-5,"sample_period_ns":1,"recorder":{"only_pid":100},"spans":[{"cpu":0,"start_ns":1000,"end_ns":9000}],
"losses":[{"cpu":1,"start_ns":2000,"end_ns":3000,"events":4}],"threads":[{"pid":100,"tid":101,"name":"t","policy":2,"nice":-3}],
"processes":[{"pid":100,"command_line":"a b"}],"futex_waits":[{"time_ns":9,"tid":101,"word_avma":8,"owner_tid":100}],"warnings":["w"]}"#,
    br#"{"version":1,"names":["","f","x.c"],"modules":[{"path":"[kernel]","kind":"kernel","build_id":"","frames":[[4660,[[1,2,3]]]]},
{"path":"/bin/a","kind":"file","build_id":"0707","frames":[[16,[[1,0,0],[1,2,9]]]]},{"kind":{"anonymous":{"pid":100}},"frames":[]}]}"#,
    b"# Notes",
];

const PERF_MAPS: [&str; 3] = [
    "1000 10 LazyCompile:~run /srv/app.js:3\n0x1008 0x20 stub\r\nnonsense\n3000 zz bad\n\n4000 10 \n",
    "1000 10 JS:*get size /srv/my app.js:3:10\n1008 20 JS:+'run a:1:2\n2000 8 Eval:~ /b.js:1:1\n",
    "0x1000 0x10 int A$B.run(int[], A)\n1008 8 void A$$Lambda$1/0x7f90.<init>()\n2000 8 La/B;::c(I)V\n",
];

const NAMES: [&str; 12] = [
    "_ZN3lab6starve13hold_the_lock17h0123456789abcdefE.llvm.1234",
    "_RNvNtCs1234_3lab6starve13hold_the_lock",
    "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE",
    "_ZNSt6vectorIiSaIiEE9push_backERKi",
    "_ZZN1AIiE1fEvENKUlvE_clEv",
    "pthread_cond_wait@@GLIBC_2.3.2",
    "?RendererMain@content@@YAHABUMainFunctionParams@1@@Z",
    "??$make@V?$vector@HV?$allocator@H@std@@@std@@@@YAPEAV?$vector@HV?$allocator@H@std@@@std@@XZ",
    "_NtQueryVirtualMemory@24",
    "@KfLowerIrql@4",
    "main.(*List[go.shape.struct { A []int }]).Push",
    "gopkg.in/yaml%2ev3.(*decoder).unmarshal",
];

const MANIFEST: &str = r#"<provider name="P" guid="{x}"><task name="Work" value="0xfffe"/><opcode name="Go" value="11"/>
<valueMap name="Colour"><map value="0x1" message="$(string.red)"/></valueMap><bitMap name="Bits"><map value="2" message="b"/></bitMap>
<event value="3" version="1" symbol="WorkStart" opcode="win:Start" task="Work" template="A"/><event value="4" opcode="Go" symbol="Plain"/>
<template tid="A"><data name="Count" inType="win:UInt32"/><data name="Text" inType='win:UnicodeString' count="Count"/>
<data name="Bytes" inType="win:Binary" length="Count" map="Colour"/></template><string id="red" value="Red &amp; hot"/></provider>"#;

const RULES: &str = include_str!("../../analysis/waits/runtimes.toml");

/// A pipe with compressed records: one zstd frame with one raw block.
fn packed() -> Vec<u8> {
    let records = perf_records::perf_records();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    let block = u32::try_from(records.len()).expect("few records") << 3 | 1;
    frame.extend_from_slice(&block.to_le_bytes()[..3]);
    frame.extend(records);
    let mut out = perf::pipe_head();
    out.extend(unhitch_formats::perf_data::record::kind::COMPRESSED.to_le_bytes());
    out.extend([0; 2]);
    out.extend(u16::try_from(frame.len() + 8).expect("few records").to_le_bytes());
    out.extend(frame);
    out
}

const PROVIDER: Guid = Guid::new(0x1234_5678, 0x1234, 0x5678, [1, 2, 3, 4, 5, 6, 7, 8]);
const CODE: u64 = 0x7ff6_0000_0000;
const KERNEL: u64 = 0xffff_f800_0000_0000;

/// A trace with every event that the writer knows.
fn write_events(writer: &mut Writer) {
    let process = Process { pid: 100, parent: 4, image: "a.exe", command_line: "a -b" };
    let thread = ThreadFacts { pid: 100, tid: 104, name: Some("worker") };
    let image = Image {
        base: CODE,
        size: 0x1_0000,
        pid: 100,
        timestamp: 7,
        path: "\\Device\\HarddiskVolume3\\a.exe",
    };
    let interrupt = Interrupt { entry_ns: 5_000, routine: KERNEL + 0x100 };
    metadata::volume(writer, 0, 0, "\\Device\\HarddiskVolume3", "C:");
    metadata::build_info(writer, 0, 0, "lab", "Windows");
    let first = [
        KernelEvent::Process(Rundown::First, process),
        KernelEvent::Thread(Rundown::First, thread, (100, 104)),
        KernelEvent::ThreadName(thread),
        KernelEvent::Image(Rundown::First, image),
        KernelEvent::Image(
            Rundown::First,
            Image { base: KERNEL, pid: 0, path: "\\SystemRoot\\ntoskrnl.exe", ..image },
        ),
        KernelEvent::ImageRsds { base: CODE, pid: 100, guid: PROVIDER, age: 1, pdb: "a.pdb" },
        KernelEvent::SampleInterval { first: true, units: 10_000 },
        KernelEvent::FileName { file: 0xffff_c000_0000_0010, path: "\\a.txt" },
    ];
    first.iter().for_each(|event| writer.kernel(0, 1_000, event));
    write_scheduling(writer, interrupt);
    write_provider_events(writer);
    metadata::lost_event(writer, 0, 63_000, 32);
    let end = [
        KernelEvent::Thread(Rundown::End, thread, (100, 104)),
        KernelEvent::Image(Rundown::Last, image),
        KernelEvent::Process(Rundown::End, process),
    ];
    end.iter().for_each(|event| writer.kernel(0, 64_000, event));
}

/// Switches, wake-ups, samples, interrupts and transfers, all with stacks of both forms.
fn write_scheduling(writer: &mut Writer, interrupt: Interrupt) {
    let mut stacks = StackCache::new(2);
    let later = [
        KernelEvent::CSwitch(CSwitch {
            new_tid: 104,
            old_tid: 0,
            old_state: 5,
            ..CSwitch::default()
        }),
        KernelEvent::Sample { instruction: CODE + 0x10, tid: 104, in_dpc: false },
        KernelEvent::Dpc(interrupt),
        KernelEvent::Isr(interrupt, 1),
        KernelEvent::ReadyThread(ReadyThread { tid: 104, in_dpc: true }),
        KernelEvent::HardFault {
            start_ns: 9_000,
            avma: CODE,
            file: 0xffff_c000_0000_0010,
            offset: 0,
            tid: 104,
            bytes: 4096,
        },
        KernelEvent::DiskRead {
            disk: 0,
            bytes: 512,
            offset: 4096,
            file: 0xffff_c000_0000_0010,
            took_ns: 10,
            tid: 104,
        },
        KernelEvent::Mark("mark"),
        KernelEvent::CSwitch(CSwitch {
            new_tid: 0,
            old_tid: 104,
            old_state: 5,
            old_wait_reason: 6,
            ..CSwitch::default()
        }),
    ];
    for (event, ns) in later.iter().zip((10_000..).step_by(1_000)) {
        writer.kernel(0, ns, event);
        let walk = KernelEvent::StackWalk {
            of_ns: ns,
            pid: 100,
            tid: 104,
            frames: &[KERNEL + 0x10, CODE + 0x20],
        };
        writer.kernel(0, ns, &walk);
        stacks.log(writer, 0, ns, (100, 104), &[KERNEL + ns], &[CODE + 0x20]);
    }
    stacks.finish(writer, 0, 50_000);
}

/// Events of Win32k and UIforETW, a described event, and one that describes itself.
fn write_provider_events(writer: &mut Writer) {
    let delay = win32k::Delay {
        flags: 0x806,
        delay_ms: 300,
        window: Some(("Class", "a.exe")),
        ..win32k::Delay::default()
    };
    win32k::message_check_delay(writer, 0, 60_000, (100, 104), &delay);
    win32k::input_process_delay(writer, 0, 60_000, (100, 104), &delay);
    win32k::focus_change(writer, 0, 60_000, (100, 104), 104, 108);
    uiforetw::key_down(writer, 0, 61_000, (100, 104), 0x41, "A");
    uiforetw::mark(writer, 0, 61_000, (100, 104), "mark");
    uiforetw::mark_ints(writer, 0, 61_000, (100, 104), "ints", &[1, -2]);
    uiforetw::mark_floats(writer, 0, 61_000, (100, 104), "floats", &[0.5]);
    uiforetw::frame(writer, 0, 61_000, (100, 104), 3, 16.0);
    let fields = [
        ("Count", metadata::in_type::U32),
        ("Text", metadata::in_type::UTF16),
        ("Name", metadata::in_type::ANSI),
    ];
    let described = metadata::Description {
        provider: PROVIDER,
        provider_name: "P",
        id: 3,
        version: 1,
        opcode: 1,
        task: 2,
        task_name: "Task",
        keyword: 5,
        fields: &fields,
    };
    metadata::event_info(writer, 0, 62_000, &described);
    let payload = Bytes::new().u32(7).utf16("text").ansi("name");
    metadata::trace_logging(
        writer,
        (0, 62_000),
        (100, 104),
        (PROVIDER, "P"),
        "Own",
        &fields,
        &payload,
    );
}

fn etl(compression: Compression, pointer_width: u8) -> Vec<u8> {
    let options =
        Options { compression, pointer_width, buffer_bytes: 4096, cpus: 1, ..Options::default() };
    let mut writer = Writer::new(options);
    write_events(&mut writer);
    writer.finish()
}

/// A zip with a Windows trace in it.
fn etl_in_zip() -> Vec<u8> {
    zips::zip(&[("a.etl", &etl(Compression::All, 8))])
}

/// The events of a trace, all together, and one by one with a payload of ones.
fn etl_events() -> Vec<Vec<u8>> {
    const BUFFER_HEADER_LEN: usize = 0x48;
    let mut all = Vec::new();
    for (flags, width) in [(0, 8), (1, 4)] {
        let mut writer =
            Writer::new(Options { pointer_width: width, cpus: 1, ..Options::default() });
        write_events(&mut writer);
        let file = writer.finish();
        let second = &file[64 << 10..];
        let used = u32::from_le_bytes([second[4], second[5], second[6], second[7]]) as usize;
        let events = &second[BUFFER_HEADER_LEN..used];
        all.extend(
            [flags, flags | 2]
                .map(|flags| [&[flags, 0][..], &events[..events.len().min(4000)]].concat()),
        );
        all.extend(single(events).map(|event| [&[flags | 2, 0][..], event].concat()));
    }
    let hooks = include_str!("../../formats/src/etl/kernel_events.txt").lines();
    let hooks = hooks.filter_map(|line| {
        u16::from_str_radix(line.split_whitespace().next()?.trim_start_matches("0x"), 16).ok()
    });
    for hook in hooks {
        // SYSTEM_TRACE_HEADER of version 4, with a payload of ones.
        let mut event = vec![2, 0, 4, 0, 2, 0xc0, 112, 0];
        event.extend(hook.to_le_bytes());
        event.extend([104, 0, 0, 0, 100, 0, 0, 0]);
        event.extend(1_000_000_000_100_u64.to_le_bytes());
        event.extend([0; 8]);
        event.extend([1; 80]);
        all.push(event);
    }
    all
}

/// The events in a buffer, one by one. Their length is at offset 4, or at 0 for manifest events.
fn single(mut events: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let kind = *events.get(2)?;
        let at = if matches!(kind, 0x12 | 0x13 | 0xa | 0x14) { 0 } else { 4 };
        let len = usize::from(u16::from_le_bytes([*events.get(at)?, *events.get(at + 1)?]))
            .next_multiple_of(8);
        let (event, rest) = events.split_at_checked(len).filter(|_| len > 0)?;
        events = rest;
        Some(event)
    })
}

/// A TraceLogging description, a `TRACE_EVENT_INFO`, an `EVENT_MAP_INFO`, and traits, each after
/// the byte that selects its reader.
fn schemas() -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Options { cpus: 1, ..Options::default() });
    let fields = [("Count", metadata::in_type::U32), ("Text", metadata::in_type::UTF16)];
    let described = metadata::Description {
        provider: PROVIDER,
        provider_name: "P",
        id: 3,
        version: 1,
        opcode: 1,
        task: 2,
        task_name: "Task",
        keyword: 5,
        fields: &fields,
    };
    metadata::event_info(&mut writer, 0, 0, &described);
    let file = writer.finish();
    // Behind the header of the buffer and of the event.
    let info = &file[(64 << 10) + 0x48 + 0x30..][..0x70 + 2 * 24 + 64];
    let logging = b"\x20\x00\x00Name\0Count\x08Text\x81\x02Struct\x18\x02\0";
    let map = Bytes::new()
        .u32(40)
        .u32(0)
        .u32(2)
        .u32(0)
        .u32(46)
        .u32(1)
        .u32(50)
        .u32(2)
        .raw(&[0; 8])
        .utf16("Map")
        .utf16("a")
        .utf16("b");
    vec![
        [&[0][..], logging].concat(),
        [&[1][..], info].concat(),
        [&[2][..], &map.0].concat(),
        b"\x03\x0a\x00Provider\0".to_vec(),
    ]
}

fn pdb(with_procedures: bool) -> Vec<u8> {
    let public = |name: &str, rva| Public { name: name.to_owned(), rva, function: true };
    let procedure = |name: &str, rva| Procedure { name: name.to_owned(), rva, len: 0x18 };
    let procedures = if with_procedures {
        vec![procedure("Run", 0x1010), procedure("inner", 0x1040)]
    } else {
        Vec::new()
    };
    Pdb {
        guid: PROVIDER,
        age: 1,
        publics: vec![public("?Run@@YAXXZ", 0x1010), public("_f@4", 0x1080)],
        procedures,
    }
    .encode()
}
