//! What stacks mean: the rules, the class of each stack, and stacks as text.

pub mod classes;
pub(crate) mod function_names;
mod layer;
pub(crate) mod name_patterns;
mod rule_file;
pub mod rules;
pub mod text;
mod wait_class;

pub use classes::{StackClasses, StackKind, WakeContext, WakeSource};
pub use layer::Layer;
pub use rule_file::RulesError;
pub use rules::Rules;
pub use wait_class::{InterruptSource, WaitClass};
