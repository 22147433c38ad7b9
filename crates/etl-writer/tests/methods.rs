//! Code of .NET has the names of its methods, for as long as it belongs to them. The traces are
//! synthetic.

use unhitch_etl_writer::{
    Image, KernelEvent, Options, Process, Rundown, ThreadFacts, Writer,
    clr::{self, Method, MethodChange},
};
use unhitch_model::{ModuleKind, StackId, Time, Trace};

const IDS: (u32, u32) = (100, 200);
const OTHER: (u32, u32) = (300, 400);
const MS: u64 = 1_000_000;
const HEAP: u64 = 0x7f00_0000;
const IMAGE: u64 = 0x6000_0000;

fn writer() -> Writer {
    let mut writer = Writer::new(Options::default());
    for ((pid, tid), image) in [(IDS, "app.exe"), (OTHER, "other.exe")] {
        writer.kernel(
            0,
            0,
            &KernelEvent::Process(
                Rundown::First,
                Process { pid, parent: 4, image, command_line: "" },
            ),
        );
        writer.kernel(
            0,
            0,
            &KernelEvent::Thread(Rundown::First, ThreadFacts { pid, tid, name: None }, (4, 8)),
        );
        let image =
            Image { base: IMAGE, size: 0x10_0000, pid, timestamp: 1, path: "C:\\Lib.ni.dll" };
        writer.kernel(0, 0, &KernelEvent::Image(Rundown::First, image));
    }
    writer
}

fn sample(writer: &mut Writer, ms: u64, tid: u32, instruction: u64) {
    writer.kernel(0, ms * MS, &KernelEvent::Sample { instruction, tid, in_dpc: false });
}

fn named(id: u64, start: u64, name: &str) -> Method<'_> {
    Method {
        id,
        module: 7,
        start,
        len: 0x100,
        jitted: true,
        names: Some(("App.Program", name, "instance void  (int32)")),
    }
}

fn read(writer: Writer) -> Trace {
    unhitch_formats::read_bytes(&writer.finish()).unwrap()
}

fn names(trace: &Trace) -> Vec<String> {
    trace.samples.stack.iter().flat_map(|stack| trace.stack_names(*stack)).collect()
}

fn module(trace: &Trace, stack: StackId) -> (&str, ModuleKind) {
    let frame = trace.stacks.frame(trace.stacks.frames_of(stack)[0]).unwrap();
    let module = trace.modules.get(frame.module).unwrap();
    (trace.name(module.path), module.kind)
}

#[test]
fn an_address_has_the_name_of_the_method_that_was_there_then() {
    let mut writer = writer();
    clr::module(&mut writer, 0, MS, IDS, 7, "C:\\App.dll");
    sample(&mut writer, 2, IDS.1, HEAP + 0x10);
    clr::method(&mut writer, 0, 10 * MS, IDS, MethodChange::Load, &named(1, HEAP, "First"));
    sample(&mut writer, 11, IDS.1, HEAP + 0x10);
    sample(&mut writer, 12, OTHER.1, HEAP + 0x10);
    clr::method(&mut writer, 0, 20 * MS, IDS, MethodChange::Unload, &named(1, HEAP, "First"));
    sample(&mut writer, 21, IDS.1, HEAP + 0x10);
    clr::method(&mut writer, 0, 30 * MS, IDS, MethodChange::Load, &named(2, HEAP, "Second"));
    sample(&mut writer, 31, IDS.1, HEAP + 0x10);
    sample(&mut writer, 32, IDS.1, HEAP + 0x100);
    clr::method(&mut writer, 0, 40 * MS, IDS, MethodChange::DcEnd, &named(2, HEAP, "Second"));
    // Named at the end, but present from the beginning; nothing is known about another process.
    clr::method(&mut writer, 0, 41 * MS, OTHER, MethodChange::DcEnd, &named(3, HEAP, "Third"));
    let trace = read(writer);
    let anon = format!("[anon]+{:#x}", HEAP + 0x10);
    let behind = format!("[anon]+{:#x}", HEAP + 0x100);
    assert_eq!(
        names(&trace),
        [
            anon.as_str(),
            "App.Program.First(Int32)",
            "App.Program.Third(Int32)",
            &anon,
            "App.Program.Second(Int32)",
            &behind
        ]
    );
    let modules: Vec<_> = trace.samples.stack.iter().map(|stack| module(&trace, *stack)).collect();
    assert_eq!(modules[1], ("C:\\App.dll", ModuleKind::Jit { pid: 100, generation: 0 }));
    assert_eq!(modules[4], ("C:\\App.dll", ModuleKind::Jit { pid: 100, generation: 1 }));
    assert_eq!(modules[2], ("[jit]", ModuleKind::Jit { pid: 300, generation: 0 }));
    assert!(
        modules
            .iter()
            .all(|(_, kind)| kind.is_program() != matches!(kind, ModuleKind::Anonymous { .. }))
    );
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
}

/// One stack, recorded twice with the same addresses.
#[test]
fn a_stack_means_something_else_when_its_methods_do() {
    let mut writer = writer();
    let frames = [HEAP + 0x20, IMAGE + 0x500, HEAP + 0x1020];
    clr::method(&mut writer, 0, MS, IDS, MethodChange::DcStart, &named(9, HEAP + 0x1000, "Main"));
    clr::method(
        &mut writer,
        0,
        MS,
        IDS,
        MethodChange::DcStart,
        &Method { jitted: false, ..named(8, IMAGE + 0x400, "Ahead") },
    );
    for (ms, id, name) in [(10, 1, "First"), (20, 2, "Second")] {
        // No event reports that the first was unloaded.
        clr::method(&mut writer, 0, ms * MS, IDS, MethodChange::Load, &named(id, HEAP, name));
        sample(&mut writer, ms + 1, IDS.1, HEAP + 0x20);
        let (of_ns, (pid, tid)) = ((ms + 1) * MS, IDS);
        writer.kernel(0, of_ns, &KernelEvent::StackWalk { of_ns, pid, tid, frames: &frames });
    }
    let trace = read(writer);
    let stacks: Vec<Vec<String>> =
        trace.samples.stack.iter().map(|stack| trace.stack_names(*stack)).collect();
    let [main, ahead] = ["App.Program.Main(Int32)", "App.Program.Ahead(Int32)"];
    assert_eq!(
        stacks,
        [[main, ahead, "App.Program.First(Int32)"], [main, ahead, "App.Program.Second(Int32)"]]
    );
    // Code that was compiled ahead of time belongs to the image, although the runtime names it.
    let frame = trace.stacks.frame(trace.stacks.frames_of(trace.samples.stack[0])[1]).unwrap();
    let module = trace.modules.get(frame.module).unwrap();
    assert!(matches!(module.kind, ModuleKind::Image { .. }) && frame.offset == 0x4ff, "{module:?}");
}

#[test]
fn a_name_may_come_with_another_event_or_never() {
    let mut writer = writer();
    let nameless = |id, start| Method { names: None, ..named(id, start, "") };
    clr::method(&mut writer, 0, MS, IDS, MethodChange::Load, &nameless(1, HEAP));
    clr::method(&mut writer, 0, MS, IDS, MethodChange::Load, &nameless(2, HEAP + 0x1000));
    sample(&mut writer, 2, IDS.1, HEAP);
    sample(&mut writer, 3, IDS.1, HEAP + 0x1000);
    clr::method(&mut writer, 0, 9 * MS, IDS, MethodChange::DcEnd, &named(1, HEAP, "Named"));
    let trace = read(writer);
    assert_eq!(
        names(&trace),
        ["App.Program.Named(Int32)".to_owned(), format!("[anon]+{:#x}", HEAP + 0x1000)]
    );
    let expected = "1 .NET method was recorded without a name (MethodLoad, not MethodLoadVerbose): its code is shown as addresses";
    assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), [expected]);
}

/// The events are shown with their names and fields, whether or not the trace describes them.
#[test]
fn events_of_methods_have_names() {
    let mut writer = writer();
    clr::module(&mut writer, 0, MS, IDS, 7, "C:\\App.dll");
    clr::method(&mut writer, 0, 2 * MS, IDS, MethodChange::Load, &named(1, HEAP, "First"));
    clr::method(&mut writer, 0, 3 * MS, IDS, MethodChange::DcEnd, &named(1, HEAP, "First"));
    let trace = read(writer);
    let name = |event| {
        let kind = trace.events.kind_of(event).unwrap();
        format!("{}/{}", trace.name(kind.provider), trace.name(kind.name))
    };
    let provider = "Microsoft-Windows-DotNETRuntime";
    let expected = ["/Loader/ModuleLoad", "/Method/LoadVerbose", "Rundown/Method/DCStopVerbose"];
    assert_eq!(
        (0..3).map(name).collect::<Vec<_>>(),
        expected.map(|name| format!("{provider}{name}"))
    );
    let field = |event, name| {
        trace.events.field(event, trace.strings.find(name).unwrap()).unwrap().to_string()
    };
    assert_eq!(
        (field(0, "ModuleILPath"), field(1, "MethodName")),
        ("C:\\App.dll".to_owned(), "First".to_owned())
    );
    assert_eq!(trace.events.time[1], Time::from_nanos(2 * MS));
}
