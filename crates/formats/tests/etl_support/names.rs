//! What TraceEvent calls an event, and what we do.
//!
//! It has names of its own for the classes of the kernel's GUIDs and for the tasks and opcodes of
//! .NET, where we print those of the file's descriptions.

/// TraceEvent's providers for what is the kernel's here.
const KERNEL: [&str; 2] = ["KernelTraceControl", "MSNT_SystemTrace"];

/// Of .NET's providers: task and opcode as TraceEvent and as the descriptions have them.
const DOT_NET: &[(&str, &str)] = &[
    ("GC/AllocationTick", "GarbageCollection/GCAllocationTick"),
    ("GC/BulkMovedObjectRanges", "GarbageCollection/GCBulkMovedObjectRanges"),
    ("GC/BulkSurvivingObjectRanges", "GarbageCollection/GCBulkSurvivingObjectRanges"),
    ("GC/CreateSegment", "GarbageCollection/GCCreateSegment"),
    ("GC/FinalizeObject", "GarbageCollection/FinalizeObject"),
    ("GC/FinalizersStart", "GarbageCollection/GCFinalizersBegin"),
    ("GC/FinalizersStop", "GarbageCollection/GCFinalizersEnd"),
    ("GC/GenerationRange", "GarbageCollection/GCGenerationRange"),
    ("GC/HeapStats", "GarbageCollection/GCHeapStats"),
    ("GC/MarkCards", "GarbageCollection/GCMarkOlderGenerationRoots"),
    ("GC/MarkFinalizeQueueRoots", "GarbageCollection/GCMarkFinalizeQueueRoots"),
    ("GC/MarkHandles", "GarbageCollection/GCMarkHandles"),
    ("GC/MarkStackRoots", "GarbageCollection/GCMarkStackRoots"),
    ("GC/PinObjectAtGCTime", "GarbageCollection/PinObjectAtGCTime"),
    ("GC/RestartEEStart", "GarbageCollection/GCRestartEEBegin"),
    ("GC/RestartEEStop", "GarbageCollection/GCRestartEEEnd"),
    ("GC/Start", "GarbageCollection/Start"),
    ("GC/Stop", "GarbageCollection/Stop"),
    ("GC/SuspendEEStart", "GarbageCollection/GCSuspendEEBegin"),
    ("GC/SuspendEEStop", "GarbageCollection/GCSuspendEEEnd"),
    ("GC/TerminateConcurrentThread", "GarbageCollection/GCTerminateConcurrentThread"),
    ("GC/Triggered", "GarbageCollection/Triggered"),
    ("Loader/AppDomainLoad", "CLRLoader/AppDomainLoad"),
    ("Loader/AppDomainUnload", "CLRLoader/AppDomainUnload"),
    ("Loader/AssemblyLoad", "CLRLoader/AssemblyLoad"),
    ("Loader/AssemblyUnload", "CLRLoader/AssemblyUnload"),
    ("Loader/DomainModuleLoad", "CLRLoader/DomainModuleLoad"),
    ("Loader/ModuleLoad", "CLRLoader/ModuleLoad"),
    ("Loader/ModuleUnload", "CLRLoader/ModuleUnload"),
    ("Method/JittingStarted", "CLRMethod/MethodJittingStarted"),
    ("Method/LoadVerbose", "CLRMethod/MethodLoadVerbose"),
    ("Method/UnloadVerbose", "CLRMethod/MethodUnloadVerbose"),
    ("Runtime/Start", "CLRRuntimeInformation/Start"),
    ("Loader/AppDomainDCStop", "CLRLoaderRundown/AppDomainDCEnd"),
    ("Loader/AssemblyDCStop", "CLRLoaderRundown/AssemblyDCEnd"),
    ("Loader/DomainModuleDCStop", "CLRLoaderRundown/DomainModuleDCEnd"),
    ("Loader/ModuleDCStop", "CLRLoaderRundown/ModuleDCEnd"),
    ("Method/DCStopComplete", "CLRMethodRundown/DCEndComplete"),
    ("Method/DCStopInit", "CLRMethodRundown/DCEndInit"),
    ("Runtime/Start", "CLRRuntimeInformationRundown/Start"),
];

/// True when an event that TraceEvent prints as `printed` may be called `provider` and `name` here.
pub fn is_same(printed: &str, provider: &str, name: &str) -> bool {
    let Some((class, rest)) = printed.split_once('/') else { return false };
    let class = if KERNEL.contains(&class) { "Windows Kernel" } else { class };
    let known =
        || class.starts_with("Microsoft-Windows-DotNETRuntime") && DOT_NET.contains(&(rest, name));
    class == provider && (rest == name || known())
}
