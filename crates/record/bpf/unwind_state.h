// What is known while a stack is unwound, and how memory is read.
#pragma once

#include "kernel.h"
#include "ring.h"
#include <bpf/bpf_helpers.h>

struct registers {
	u64 ip, sp, bp;
	u64 leaf; // the address is not a return address
};

// The words that unwinding read from the stack. More than fit are not kept.
#define MAX_WORDS_READ 64
struct words_read {
	u64 from; // the address that offsets count from
	u32 count; // more than MAX_WORDS_READ: not all are here
	u32 unused;
	u64 returns; // one bit for each word: it is a return address
	u16 offsets[MAX_WORDS_READ]; // in words
	u64 values[MAX_WORDS_READ];
};

// Where the pointer to the method of each of Java's frames is: its address, the frame's index from
// `resumed_at` on, and whether it is a pointer to the name of code that is no method.
#define MAX_JAVA_FRAMES 64
#define JAVA_INDEX_SHIFT 57
#define JAVA_ADDRESS ((1ull << JAVA_INDEX_SHIFT) - 1)
#define JAVA_STUB 1ull
struct java_frames {
	u64 count;
	u64 at[MAX_JAVA_FRAMES];
};

// A part of the user's stack, which is read ahead: a read costs more than the words. It does not
// cross pages, so that it fails only if the word that is wanted is not there.
#define WINDOW_WORDS 64
#define WINDOW_BEFORE 8 // words below the one that is wanted
struct window {
	u64 start;
	u64 len; // in bytes; 0: nothing was read
	u64 words[WINDOW_WORDS];
};

struct unwind {
	struct registers at;
	u32 first_mapping, mappings;
	u32 generation;
	u32 end; // enum stack_end
	u32 leaf_unknown; // the first address is in no mapping that is known
	u32 index; // of the frame
	u32 resumed_at; // the frame from which on the cache is used: 0 or 1
	u32 java_tgid; // the process, if it has a Java virtual machine; else 0
	u64 java_leaf; // of a frame before that one: as in `java_frames`; 0 for none
	struct java_frames java;
	struct words_read read;
	struct window window;
};

// What the recorder should look at.
struct hint {
	u32 tgid;
	u32 what;
};
enum hint_kind {
	PROCESS_UNKNOWN = 1,
	PROCESS_GONE,
	CODE_UNKNOWN, // it has mapped more than is known
	CODE_OBJECT, // of Python, which no stack had yet: see `code_hint`
	JAVA_METHOD, // likewise: see `method_hint`
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} hints SEC(".maps");
// Slots for processes that something is counted of.
#define ASKED_SLOTS 4096

static __always_inline bool read_user(u64 *to, u64 from)
{
	return bpf_probe_read_user(to, 8, (void *)from) == 0;
}

// Reads a word of the stack.
static __always_inline bool read_word(struct window *window, u64 *to, u64 from)
{
	if (from & 7)
		return read_user(to, from);
	u64 offset = from - window->start;
	if (offset >= window->len) {
		u64 page = from & ~(u64)(PAGE_BYTES - 1), start = from - WINDOW_BEFORE * 8;
		if (start < page)
			start = page;
		u64 len = page + PAGE_BYTES - start;
		if (len > sizeof(window->words))
			len = sizeof(window->words);
		barrier_var(len); // the verifier of Linux 6.1 only believes a check of this very number
		if (len > sizeof(window->words))
			return false;
		window->len = 0;
		if (bpf_probe_read_user(window->words, len, (void *)start))
			return false;
		window->start = start;
		window->len = len;
		offset = from - start;
	}
	*to = window->words[offset >> 3 & (WINDOW_WORDS - 1)];
	return true;
}

// Reads a word of the stack and notes it.
static __always_inline bool read_stack(struct unwind *unwind, u64 *to, u64 from, u64 is_return)
{
	struct words_read *read = &unwind->read;
	u64 value, offset = from - read->from;
	if (!read_word(&unwind->window, &value, from))
		return false;
	u32 count = read->count;
	if (count < MAX_WORDS_READ && !(offset & 7) && offset >> 3 <= 0xffff) {
		read->offsets[count] = offset >> 3;
		read->values[count] = value;
		read->returns |= is_return << count;
		read->count = count + 1;
	} else {
		read->count = MAX_WORDS_READ + 1;
	}
	*to = value;
	return true;
}
