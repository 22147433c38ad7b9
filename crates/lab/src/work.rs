//! Pure computation: no memory traffic, no system calls.

use std::hint::black_box;

/// A few µs of arithmetic. Inlined, so that samples fall into the calling function of the story.
#[inline(always)]
pub fn compute(state: &mut u64) {
    for _ in 0..2_000 {
        // This is one round of xorshift64. It is opaque, or LLVM could merge rounds.
        let mut x = black_box(*state) | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *state = x;
    }
}

/// Called after the last call of a function, this prevents a tail call, which would remove the
/// function from the stack.
#[inline(always)]
pub fn stay_on_stack() {
    black_box(());
}
