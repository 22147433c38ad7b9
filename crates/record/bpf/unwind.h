// Unwinds user stacks by tables made from `.eh_frame`, without touching the program's files: the
// tables are in maps that the recorder fills (`src/unwind`).
//
// A global function is verified once, not at each call. That, and searching without branches, keeps
// the verifier's work small; so loops call one, and their state is in a map.
#pragma once

#include "java.h"
#include "kernel.h"
#include "ring.h"
#include "unwind_state.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

// One row: code from `pc` on, up to the next row's, is unwound so. 8 bytes:
// 32 bits `pc`, relative to its file's table; 16 bits signed: offset of the CFA, in words;
// 8 bits signed: where the caller's rbp is, in words from the CFA (0: unchanged); 8 bits: rule.
enum rule {
	RULE_SP, // CFA = rsp + offset
	RULE_BP, // CFA = rbp + offset
	RULE_PLT, // CFA = rsp + 8, + 8 in the second half of a PLT entry
	RULE_END, // the first function of a thread
	RULE_SIGNAL, // a signal's frame: the registers are on the stack
	RULE_NONE, // code without an FDE: by frame pointer
	RULE_CUT, // anything else
	RULE_COMPILED, // by Java, never in a table: the frame's size is known
};

// An executable mapping of a process. Sorted by address.
struct mapping {
	u64 start;
	u64 end;
	u64 base; // address of `pc` 0
	u32 first_row;
	u32 rows;
};

struct mappings_of {
	u32 first;
	u32 count;
	u32 generation; // another one each time that they are read
};

#define MAX_UNWIND_STEPS 96
// Room for the local variables of one method of Java.
#define MAX_ARGUMENT_BYTES (1 << 20)
#define MAPPING_STEPS 9 // at most 511 mappings
#define ROW_STEPS 21 // at most 2 Mi rows in one file

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct mappings_of);
} processes SEC(".maps");
ARRAY(mappings, struct mapping, 1, BPF_F_MMAPABLE);
ARRAY(rows, u64, 1, BPF_F_MMAPABLE);

// When the mappings of a process were asked for last, and of which.
ARRAY(asked, u64, ASKED_SLOTS, 0);

// Asks for the mappings of a process, at most eight times a second.
static __always_inline void want_mappings(u32 tgid, u32 why, u64 now)
{
	u32 key = tgid & (ASKED_SLOTS - 1);
	u64 *last = bpf_map_lookup_elem(&asked, &key), mark = now >> 27 << 32 | tgid;
	if (!last || *last == mark)
		return;
	*last = mark;
	struct hint hint = { tgid, why };
	bpf_ringbuf_output(&hints, &hint, sizeof(hint), 0);
}

// Where an address was found the last time. It is looked for there first, and what is there must fit:
// this table proves nothing, so it is never wrong. A search in the tables of a large program loads
// thirty words from all over its memory, and an event loop waits at the same few places all day.
struct seen {
	u32 mapping;
	u32 row;
};
#define SEEN 8192
ARRAY(seen, struct seen, SEEN, 0);

static __always_inline struct seen *seen_of(u32 first_mapping, u64 address)
{
	u32 key = ((address ^ (u64)first_mapping << 40) * 0x9e3779b97f4a7c15ull) >> 51;
	return bpf_map_lookup_elem(&seen, &key);
}

static __always_inline bool is_in_mapping(struct mapping *mapping, u64 address)
{
	return mapping && mapping->start <= address && address < mapping->end;
}

// The mapping that the address is in. NULL if it is in none.
static __always_inline struct mapping *mapping_at(u32 first, u32 count, u64 address, u32 *place)
{
	u32 low = *place, left = count;
	struct mapping *found = bpf_map_lookup_elem(&mappings, &low);
	if (low - first < count && is_in_mapping(found, address))
		return found;
	low = first;
	for (int step = 0; step < MAPPING_STEPS; step++) {
		u32 half = left / 2, middle = low + half;
		struct mapping *at = bpf_map_lookup_elem(&mappings, &middle);
		if (!at)
			return 0;
		bool above = half && at->start <= address;
		low = above ? middle : low;
		left = above ? left - half : half;
	}
	*place = low;
	found = bpf_map_lookup_elem(&mappings, &low);
	return count && is_in_mapping(found, address) ? found : 0;
}

// The row of the address `pc`; a `RULE_NONE` if there is none.
static __always_inline u64 row_at(struct mapping *in, u32 pc, u32 *place)
{
	u32 low = *place, next = low + 1, left = in->rows, end = in->first_row + left;
	u64 *found = bpf_map_lookup_elem(&rows, &low), *after = bpf_map_lookup_elem(&rows, &next);
	if (found && low - in->first_row < left && (u32)*found <= pc &&
	    (next == end || (after && (u32)*after > pc)))
		return *found;
	low = in->first_row;
	for (int step = 0; step < ROW_STEPS; step++) {
		u32 half = left / 2, middle = low + half;
		u64 *at = bpf_map_lookup_elem(&rows, &middle);
		if (!at)
			return (u64)RULE_NONE << 56;
		bool above = half && (u32)*at <= pc;
		low = above ? middle : low;
		left = above ? left - half : half;
	}
	*place = low;
	found = bpf_map_lookup_elem(&rows, &low);
	return found && in->rows && (u32)*found <= pc ? *found : (u64)RULE_NONE << 56;
}

// Goes to the caller. Returns 0, 1 if there is none, or 2 if `ip` was not even code.
__noinline int unwind_step(struct unwind *unwind)
{
	if (!unwind)
		return 1;
	struct registers *at = &unwind->at;
	u32 leaf = at->leaf;
	u64 ip = leaf ? at->ip : at->ip - 1;
	at->leaf = 0;
	struct seen *seen = seen_of(unwind->first_mapping, ip);
	if (!seen)
		return 1;
	struct mapping *in =
		mapping_at(unwind->first_mapping, unwind->mappings, ip, &seen->mapping);
	if (!in && unwind->mappings && !leaf) {
		unwind->end = ENDS_OUTSIDE_CODE;
		return 2;
	}
	unwind->leaf_unknown |= !in && unwind->mappings;
	u64 row = in ? row_at(in, ip - in->base, &seen->row) : (u64)RULE_NONE << 56;
	u32 rule = row >> 56;
	s64 offset = (s16)(row >> 32) * 8;
	s64 saved_bp = (s8)(row >> 48) * 8;
	u64 cfa, java = NOT_JAVA;
	if (rule == RULE_NONE && unwind->java_tgid && (!in || !in->rows))
		java = enter_java_frame(unwind, ip);
	if (java > INTERPRETED)
		rule = RULE_COMPILED;
	switch (rule) {
	case RULE_SP:
		cfa = at->sp + offset;
		break;
	case RULE_BP:
		cfa = at->bp + offset;
		break;
	case RULE_PLT:
		cfa = at->sp + 8 + ((ip & 15) >= 11 ? 8 : 0);
		break;
	case RULE_END:
		unwind->end = ENDS_AT_START;
		return 1;
	case RULE_SIGNAL:
		// struct ucontext: rbp, rsp, rip of its registers.
		if (!read_stack(unwind, &at->ip, at->sp + 168, 1) ||
		    !read_stack(unwind, &at->bp, at->sp + 120, 0) ||
		    !read_stack(unwind, &at->sp, at->sp + 160, 0)) {
			unwind->end = ENDS_AT_UNREAD_MEMORY;
			return 1;
		}
		at->leaf = 1;
		return 0;
	case RULE_NONE:
		if (!at->bp) {
			unwind->end = in ? ENDS_AT_START : ENDS_OUTSIDE_CODE;
			return 1;
		}
		cfa = at->bp + 16;
		saved_bp = -16;
		// The leaf of a chain of frame pointers may have no frame yet, and then its caller is
		// missed; elsewhere a frame pointer below the stack is none.
		if (at->bp < at->sp || at->bp & 7) {
			unwind->end = ENDS_OUTSIDE_CODE;
			return 1;
		}
		break;
	case RULE_COMPILED:
		cfa = at->sp + java;
		saved_bp = -16;
		break;
	default:
		unwind->end = ENDS_WITHOUT_RULE;
		return 1;
	}
	u64 sender_sp = 0;
	if (java == INTERPRETED)
		read_stack(unwind, &sender_sp, at->bp + INTERPRETED_SENDER_SP, 0);
	u64 caller = 0;
	if (cfa <= at->sp || !read_stack(unwind, &caller, cfa - 8, 1)) {
		unwind->end = cfa <= at->sp ? ENDS_OUTSIDE_CODE : ENDS_AT_UNREAD_MEMORY;
		return 1;
	}
	if (saved_bp && !read_stack(unwind, &at->bp, cfa + saved_bp, 0)) {
		unwind->end = ENDS_AT_UNREAD_MEMORY;
		return 1;
	}
	// The frame lies above arguments that its caller has not in its own frame.
	bool is_above = sender_sp > cfa && sender_sp - cfa < MAX_ARGUMENT_BYTES;
	at->sp = is_above ? sender_sp : cfa;
	at->ip = caller;
	if (caller < 4096) {
		unwind->end = ENDS_AT_START;
		return 1;
	}
	return 0;
}
