//! Programs and libraries in memory: which image an address of a process belonged to at a time.
//!
//! Image events say where an image lies. The ImageID events that merging tools add at the same time
//! identify it: its PDB's GUID and age, its time stamp. A later image at the same address counts
//! from its load on.

use super::{
    hook, kernel,
    methods::Found,
    paths::Paths,
    rows::Naming,
    space_id::{SpaceId, is_kernel_avma},
    tasks::ProcessIndex,
};
use rustc_hash::FxHashMap;
use unhitch_model::{
    Frame, FrameId, Module, ModuleId, ModuleKind, NameId, Symbol, Time, Trace, Value,
};

/// The images of one address space.
#[derive(Default)]
struct Space {
    /// By base, those of equal base by time.
    images: Vec<Image>,
    /// When an image was loaded over another one, in order.
    reloads: Vec<Time>,
}

#[derive(Clone, Copy)]
struct Image {
    base: u64,
    size: u64,
    from: Time,
    module: ModuleId,
}

/// Maximum number of images below an address that are looked at. Images may overlap: an unloaded
/// one and its successor.
const MAX_BELOW: usize = 64;

impl Space {
    fn module_at(&self, avma: u64, time: Time) -> Option<&Image> {
        let below = self.images.partition_point(|image| image.base <= avma);
        let around = self.images.get(below.saturating_sub(MAX_BELOW)..below)?.iter().rev();
        let around = around.filter(|image| avma - image.base < image.size);
        // The last one loaded by then; before the first load, the first one.
        around.min_by_key(|image| {
            if image.from <= time {
                (0, time.since(image.from))
            } else {
                (1, image.from.since(time))
            }
        })
    }

    fn finish(&mut self) {
        self.images.sort_by_key(|image| image.from);
        let mut there = std::collections::BTreeMap::<u64, u64>::new();
        for image in &self.images {
            let end = image.base.saturating_add(image.size);
            let below = there.range(..end).next_back();
            if below.is_some_and(|(_, other)| *other > image.base) {
                self.reloads.push(image.from);
            }
            there.insert(image.base, end);
        }
        self.reloads.dedup();
        self.images.sort_by_key(|image| (image.base, image.from));
    }
}

/// All address spaces of a trace: the kernel's, and one per process.
pub(super) struct Spaces {
    spaces: Vec<Space>,
    pointer_bytes: usize,
    kernel: ModuleId,
    anonymous: NameId,
    jit: NameId,
}

/// The content of the ImageID events of one image.
#[derive(Clone, Default)]
struct Identity {
    build_id: Vec<u8>,
    pdb: String,
    timestamp: u32,
}

impl Spaces {
    /// Reads the naming events, which must be by time. `times` converts their ticks.
    pub(super) fn new(
        naming: &[Naming],
        times: impl Fn(i64) -> Time,
        processes: &ProcessIndex,
        paths: &Paths,
        pointer_bytes: u8,
        trace: &mut Trace,
    ) -> Self {
        let identities = identities(naming, pointer_bytes, trace);
        let kernel = Module {
            path: trace.strings.intern("[kernel]"),
            kind: ModuleKind::Kernel,
            build_id: Vec::new(),
        };
        let anonymous = trace.strings.intern("[anon]");
        let jit = trace.strings.intern("[jit]");
        let mut all = Self {
            spaces: Vec::new(),
            pointer_bytes: usize::from(pointer_bytes),
            kernel: ModuleId(0),
            anonymous,
            jit,
        };
        let count = trace.threads.processes().count() + 1;
        all.spaces.resize_with(count, Space::default);
        // The last image at an address, and its place among those of its space.
        let mut last: FxHashMap<(SpaceId, u64), (ModuleId, usize)> = FxHashMap::default();
        for event in naming {
            let Some((base, size, pid, timestamp, file)) = image(event, pointer_bytes, trace)
            else {
                continue;
            };
            let time = times(event.ticks);
            let space = if is_kernel_avma(base, all.pointer_bytes) {
                SpaceId::KERNEL
            } else if let Some(process) = processes.at(pid, time) {
                SpaceId::of(process)
            } else {
                continue;
            };
            let identity = identities.get(&(event.ticks, base)).cloned().unwrap_or_default();
            let known = last.get(&(space, base)).copied();
            let path = trace.strings.intern(&paths.dos(&file));
            // The rundown repeats known images. It adds something only if it has an identity.
            let same = known
                .and_then(|(id, _)| trace.modules.get(id))
                .filter(|module| module.path == path);
            if same.is_some_and(|same| {
                identity.build_id.is_empty() || identity.build_id == same.build_id
            }) {
                continue;
            }
            let pdb = trace.strings.intern(&identity.pdb);
            let timestamp = if identity.timestamp != 0 { identity.timestamp } else { timestamp };
            let size_bytes = u32::try_from(size).unwrap_or(u32::MAX);
            let kind =
                ModuleKind::Image { pdb, timestamp, size_bytes, kernel: space == SpaceId::KERNEL };
            let was_nameless =
                same.is_some_and(|same| same.build_id.is_empty() && !identity.build_id.is_empty());
            let module = trace.modules.intern(Module { path, kind, build_id: identity.build_id });
            let Some(Space { images, .. }) = all.spaces.get_mut(space.0 as usize) else { continue };
            let place = known.filter(|_| was_nameless).map_or(images.len(), |(_, place)| place);
            last.insert((space, base), (module, place));
            let from = if event.hook == hook::IMAGE_LOAD { time } else { Time::ZERO };
            match images.get_mut(place) {
                Some(image) => image.module = module,
                None => images.push(Image { base, size, from, module }),
            }
        }
        all.spaces.iter_mut().for_each(Space::finish);
        all.kernel = trace.modules.intern(kernel);
        all
    }

    /// True for an address of the kernel.
    pub(super) fn is_kernel(&self, avma: u64) -> bool {
        is_kernel_avma(avma, self.pointer_bytes)
    }

    /// True for an address where no Windows program has code: the lowest 64 KiB, and the gap
    /// between the two halves. *Why no stricter*: code generated at run time may lie anywhere else,
    /// and not every runtime reports where.
    pub(super) fn is_never_code(&self, avma: u64) -> bool {
        const LOWEST: u64 = 0x1_0000;
        const USER_END: u64 = 1 << 47;
        !self.is_kernel(avma) && !(LOWEST..USER_END).contains(&avma)
    }

    /// Number of changes of the space up to `time`. An address means the same as long as this
    /// number stays.
    #[inline]
    pub(super) fn epoch(&self, space: SpaceId, time: Time) -> u32 {
        self.spaces
            .get(space.0 as usize)
            .map_or(0, |space| space.reloads.partition_point(|reload| *reload <= time) as u32)
    }

    /// The frame of an address, which lies in `method` if the runtime reported one there.
    pub(super) fn frame(
        &self,
        space: SpaceId,
        pid: u32,
        avma: u64,
        time: Time,
        method: Option<Found>,
        trace: &mut Trace,
    ) -> FrameId {
        let is_kernel = is_kernel_avma(avma, self.pointer_bytes);
        let space = if is_kernel { SpaceId::KERNEL } else { space };
        let image = self.spaces.get(space.0 as usize).and_then(|space| space.module_at(avma, time));
        let frame = match (image, method) {
            (image, Some(method)) if method.is_jitted || image.is_none() => {
                return self.jit_frame(pid, avma, method, trace);
            }
            (Some(image), _) => Frame { module: image.module, offset: avma - image.base },
            (None, _) if is_kernel => Frame { module: self.kernel, offset: avma },
            (None, _) => {
                let module = Module {
                    path: self.anonymous,
                    kind: ModuleKind::Anonymous { pid },
                    build_id: Vec::new(),
                };
                Frame { module: trace.modules.intern(module), offset: avma }
            }
        };
        let frame = trace.stacks.intern_frame(frame);
        // Compiled ahead of time: the code is in the image, the name comes from the runtime.
        if let Some(method) = method.filter(|_| trace.symbols.get(frame).is_empty()) {
            name(frame, method.name, trace);
        }
        frame
    }

    /// The frame of an address in code that was compiled at run time. Each method that was at the
    /// address gets a frame of its own.
    fn jit_frame(&self, pid: u32, avma: u64, method: Found, trace: &mut Trace) -> FrameId {
        let path = if method.file.is_empty() { self.jit } else { method.file };
        let mut generation = 0;
        loop {
            let kind = ModuleKind::Jit { pid, generation };
            let module = trace.modules.intern(Module { path, kind, build_id: Vec::new() });
            let frame = trace.stacks.intern_frame(Frame { module, offset: avma });
            match trace.symbols.get(frame).first() {
                None => {
                    name(frame, method.name, trace);
                    return frame;
                }
                Some(symbol) if symbol.function == method.name || generation == MAX_GENERATIONS => {
                    return frame;
                }
                Some(_) => generation += 1,
            }
        }
    }
}

/// Maximum number of methods at one address that are distinguished.
const MAX_GENERATIONS: u32 = 1 << 10;

fn name(frame: FrameId, function: NameId, trace: &mut Trace) {
    trace.symbols.set(frame, &[Symbol { function, file: NameId::EMPTY, line: 0 }]);
}

/// Base, size, process, time stamp and path of an image event; `None` for other events.
fn image(
    event: &Naming,
    pointer_bytes: u8,
    trace: &mut Trace,
) -> Option<(u64, u64, u32, u32, String)> {
    const EVENTS: [u16; 4] =
        [hook::IMAGE_LOAD, hook::IMAGE_UNLOAD, hook::IMAGE_DC_START, hook::IMAGE_DC_END];
    if !EVENTS.contains(&event.hook) {
        return None;
    }
    let layout = kernel::layout(event.hook, event.version, pointer_bytes, &mut trace.strings);
    let (mut base, mut size, mut pid, mut timestamp, mut file) =
        (None, None, event.pid, 0, String::new());
    layout.read(&event.payload, |field, value| match (trace.strings.get(field.name), &value) {
        ("ImageBase", value) => base = value.as_u64(),
        ("ImageSize", value) => size = value.as_u64(),
        ("ProcessID", Value::Unsigned(value)) => pid = *value as u32,
        ("TimeDateStamp", Value::Signed(value)) => timestamp = *value as u32,
        ("FileName", Value::Text(text)) => file = text.to_string(),
        _ => {}
    });
    Some((base?, size?, pid, timestamp, file))
}

/// The identities of images, by time and base.
fn identities(
    naming: &[Naming],
    pointer_bytes: u8,
    trace: &mut Trace,
) -> FxHashMap<(i64, u64), Identity> {
    let mut identities: FxHashMap<(i64, u64), Identity> = FxHashMap::default();
    for event in naming.iter().filter(|event| event.hook & 0xff00 == hook::IMAGE_ID) {
        let layout = kernel::layout(event.hook, event.version, pointer_bytes, &mut trace.strings);
        let (mut base, mut guid, mut age, mut pdb, mut timestamp) =
            (None, None, 0_i64, String::new(), 0);
        layout.read(&event.payload, |field, value| match (trace.strings.get(field.name), &value) {
            ("ImageBase", value) => base = value.as_u64(),
            ("GuidSig", Value::Guid(value)) => guid = Some(*value),
            ("Age", Value::Signed(value)) => age = *value,
            ("PDBFileName", Value::Text(text)) => pdb = text.to_string(),
            ("TimeDateStamp", Value::Unsigned(value)) => timestamp = *value as u32,
            _ => {}
        });
        let Some(base) = base else { continue };
        let identity = identities.entry((event.ticks, base)).or_default();
        match (event.hook, guid) {
            // If an image has both, the native PDB has the names of its machine code.
            (hook::IMAGE_RSDS | hook::IMAGE_IL_RSDS, Some(guid))
                if event.hook == hook::IMAGE_RSDS || identity.build_id.is_empty() =>
            {
                identity.build_id = [&guid[..], &(age as u32).to_le_bytes()].concat();
                identity.pdb = pdb;
            }
            (hook::IMAGE_ID, _) => identity.timestamp = timestamp,
            _ => {}
        }
    }
    identities
}
