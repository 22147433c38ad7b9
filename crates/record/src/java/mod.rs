//! The methods of Java's threads, interpreted and compiled: the recorder's part in the kernel finds
//! its way through their frames, puts a [word](unhitch_formats::scripts::ScriptFrame) in place of
//! each, and tells each method's name when it is first seen (`bpf/java.h`). Here, the same is done for
//! threads that sleep at the save.

mod method;
mod process;

pub(crate) use method::{read, told};
pub(crate) use process::{Exit, JAVA_WORDS, Java, MethodPlace};
