// Frames of what is interpreted, or compiled while the program runs, as words of a stack.
#pragma once

#include "kernel.h"
#include "unwind_state.h"
#include <bpf/bpf_helpers.h>

// A frame as a word: see `ScriptFrame` of `formats/src/scripts.rs`.
#define SCRIPT_MARK (1ull << 63)
#define SCRIPT_OUTERMOST (1ull << 62)
#define SCRIPT_METHOD (1ull << 61)
#define SCRIPT_UNIT_SHIFT 42
#define SCRIPT_MAX_UNIT 0x7ffffull
#define SCRIPT_CUT SCRIPT_MARK

// Code objects and methods that the recorder was told of.
#define TOLD_CODES 16384
ARRAY(told_codes, u64, TOLD_CODES, 0);
// How many of a process in an eighth of a second, at most: one that makes up new ones must not take
// the room of other hints.
#define MAX_TOLD 256
struct told {
	u64 mark; // the time and the process
	u64 count;
};
ARRAY(told_counts, struct told, ASKED_SLOTS, 0);

// As `id_of_code` of `formats/src/scripts.rs`.
static __always_inline u64 id_of_code(u64 code, const u64 *names)
{
	u64 hash = code;
	for (int i = 0; i < 4; i++) {
		hash = (hash ^ names[i]) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	hash &= (1ull << SCRIPT_UNIT_SHIFT) - 1;
	return hash ? hash : 1;
}

// If the recorder was not told of the code `id` yet: where to note that it was, and `mark`, what to
// note. NULL if it was, or if there is no room.
static __always_inline u64 *untold(u32 tgid, u64 id, u64 *mark)
{
	*mark = id ^ (u64)tgid << 32;
	u32 key = (u32)*mark & (TOLD_CODES - 1);
	u64 *told = bpf_map_lookup_elem(&told_codes, &key);
	if (!told || *told == *mark)
		return 0;
	key = tgid & (ASKED_SLOTS - 1);
	struct told *counted = bpf_map_lookup_elem(&told_counts, &key);
	u64 period = bpf_ktime_get_ns() >> 27 << 32 | tgid;
	if (!counted)
		return 0;
	if (counted->mark != period) {
		counted->mark = period;
		counted->count = 0;
	}
	return counted->count++ < MAX_TOLD ? told : 0;
}
