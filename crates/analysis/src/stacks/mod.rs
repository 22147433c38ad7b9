//! What stacks mean: the rules, the class of each stack, and stacks as text.

pub mod classes;
pub(crate) mod frames;
pub mod rules;
pub mod text;
