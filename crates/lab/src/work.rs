//! Computation that takes time and nothing else: no memory traffic, no system call.

use std::hint::black_box;

/// A few µs of arithmetic; inlined, so that the samples fall into the function of the story that
/// calls it.
#[inline(always)]
pub fn compute(state: &mut u64) {
    for _ in 0..2_000 {
        // One round of xorshift64; opaque, or LLVM could fold rounds together.
        let mut x = black_box(*state) | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *state = x;
    }
}

/// Put after the last call of a function, this keeps the call from becoming a jump, which would
/// take the function off the stack.
#[inline(always)]
pub fn stay_on_stack() {
    black_box(());
}
