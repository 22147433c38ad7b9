// Stacks that were taken not long ago, so that the next one from the same place need not be unwound.
//
// User stacks: unwinding depends on the registers, on the process's tables, and on the words that it
// reads from the stack. An entry has all of these. If every word is still the same, so is the stack:
// that is proved, not guessed.
//
// Kernel stacks: the kernel unwinds them, and what it reads is not known. An entry has the return
// addresses and where in the stack they were, counted from where the program was called. If each is
// still there, the stack is taken to be the same; `compare_stacks` checks that.
//
// A program may be interrupted by another that writes the same entry: `sequence` is odd while an
// entry is being written, and changes when it was.
#pragma once

#include "kernel.h"
#include "ring.h"
#include "unwind_state.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Set before loading. Takes every stack in full and compares it with the remembered one.
const volatile u32 compare_stacks = 0;

#define CACHED_STACKS_PER_CPU 512

struct cached_user_stack {
	u64 sequence;
	struct registers start;
	u32 tgid;
	u32 generation; // of the process's mappings
	u32 frames; // of the stack, the first one included
	u32 end; // enum stack_end
	struct words_read read;
	struct java_frames java;
};

#define CACHED_FRAMES 24
// How much of a kernel stack is looked at, from where the program was called.
#define KERNEL_WORDS 256

struct cached_kernel_stack {
	u64 sequence;
	u64 key; // where the thread waits, or wakes another; on an interrupt's stack, how deep it is
	u32 count;
	u32 unused;
	u64 frames[CACHED_FRAMES];
	u16 offsets[CACHED_FRAMES]; // in words, or AT_TOP
};
#define AT_TOP 0xffff // below the registers of user mode

// Resized to the machine before loading.
ARRAY(user_cache, struct cached_user_stack, CACHED_STACKS_PER_CPU, 0);
ARRAY(kernel_cache, struct cached_kernel_stack, CACHED_STACKS_PER_CPU, 0);

static __always_inline u32 cache_slot(u32 cpu, u64 key)
{
	return cpu * CACHED_STACKS_PER_CPU +
	       ((key * 0x9e3779b97f4a7c15ull) >> 40 & (CACHED_STACKS_PER_CPU - 1));
}

static __always_inline struct cached_user_stack *user_entry(u32 cpu, struct registers *at, u32 tgid)
{
	u64 hash = at->ip * 0xff51afd7ed558ccdull ^ at->sp * 0xc4ceb9fe1a85ec53ull ^ at->bp ^ tgid;
	u32 slot = cache_slot(cpu, hash);
	return bpf_map_lookup_elem(&user_cache, &slot);
}

static __always_inline bool same_registers(struct registers *a, struct registers *b)
{
	return a->ip == b->ip && a->sp == b->sp && a->bp == b->bp && a->leaf == b->leaf;
}

static __always_inline struct cached_kernel_stack *kernel_entry(u32 cpu, u64 key)
{
	u32 slot = cache_slot(cpu, key);
	return bpf_map_lookup_elem(&kernel_cache, &slot);
}
