// The frames of Java's threads: how to leave one, and which method it executes. The recorder says where
// the interpreter and the heaps of code of a process are, and where the fields of HotSpot's structures
// are (`src/java`).
//
// While a stack is unwound, it is only noted for each frame where the pointer to its method is. Then
// the frame's address is replaced by a word that names the method: in code of the interpreter, the
// address says nothing. A method's name is read at once, while the process is here: elsewhere its
// memory could not be read without waiting for whoever owns the file that it may be mapped from.
#pragma once

#include "kernel.h"
#include "ring.h"
#include "script.h"
#include "unwind_state.h"
#include <bpf/bpf_helpers.h>

#define CODE_HEAPS 3
// A heap of code is divided into segments. Its map has a byte for each: how many to go back at most to
// where the block of code begins, 0 there, or this.
#define FREE_SEGMENT 0xff
#define MAX_SEGMENT_HOPS 12
// `CodeBlob::_name` of compiled methods: "nmethod" and "native nmethod".
#define NMETHOD 0x00646f6874656d6eull
#define NATIVE_NMETHOD 0x6e2065766974616eull
// Of an interpreted frame, in bytes from rbp.
#define INTERPRETED_METHOD (-24)
#define INTERPRETED_SENDER_SP (-8)
#define MAX_FRAME_WORDS 0xffff

struct code_heap {
	u64 start;
	u64 end;
	u64 map;
	u64 segment_bits;
};

// The virtual machine of a process: addresses, and offsets in bytes.
struct java {
	u64 interpreter_start;
	u64 interpreter_end;
	struct code_heap heaps[CODE_HEAPS];
	u16 block_header, blob_name, blob_frame_words, compiled_method;
	u16 method_const, const_pool, const_name, pool_size;
	u16 pool_class, class_name, symbol_len, symbol_text;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct java);
} javas SEC(".maps");

// The texts of a method's name; of a stub, only the second.
#define MAX_CLASS_NAME 192
#define MAX_METHOD_NAME 64
struct method_hint {
	struct hint of;
	u64 id;
	u16 class_len, name_len;
	u32 unused;
	u8 class_name[MAX_CLASS_NAME];
	u8 name[MAX_METHOD_NAME];
};

// What kind of frame it is; else the size of a compiled method's frame in bytes.
#define NOT_JAVA 0
#define BY_FRAME_POINTER 1
#define INTERPRETED 2

static __always_inline void note_method(struct unwind *unwind, u64 at)
{
	struct java_frames *java = &unwind->java;
	if (unwind->index < unwind->resumed_at) {
		unwind->java_leaf = at;
		return;
	}
	u32 count = java->count;
	if (count >= MAX_JAVA_FRAMES)
		return;
	java->at[count] = (at & JAVA_ADDRESS) | (u64)(unwind->index - unwind->resumed_at) << JAVA_INDEX_SHIFT;
	java->count = count + 1;
}

// The block of code that the address is in; 0 for none.
static __always_inline u64 block_at(struct code_heap *heap, u64 address)
{
	u32 bits = heap->segment_bits & 31;
	u64 segment = (address - heap->start) >> bits;
	for (int i = 0; i < MAX_SEGMENT_HOPS; i++) {
		u8 hop;
		if (bpf_probe_read_user(&hop, 1, (void *)(heap->map + segment)) || hop == FREE_SEGMENT)
			return 0;
		if (!hop)
			return heap->start + (segment << bits);
		segment -= hop;
	}
	return 0;
}

// Notes the method of the frame at `ip`. Returns how to leave it.
__noinline u64 enter_java_frame(struct unwind *unwind, u64 ip)
{
	if (!unwind)
		return NOT_JAVA;
	u32 tgid = unwind->java_tgid;
	struct java *of = bpf_map_lookup_elem(&javas, &tgid);
	if (!of)
		return NOT_JAVA;
	if (ip >= of->interpreter_start && ip < of->interpreter_end) {
		note_method(unwind, unwind->at.bp + INTERPRETED_METHOD);
		return INTERPRETED;
	}
	for (int i = 0; i < CODE_HEAPS; i++) {
		struct code_heap *heap = &of->heaps[i];
		if (ip < heap->start || ip >= heap->end)
			continue;
		u64 blob = block_at(heap, ip), name, kind;
		u64 words;
		if (!blob)
			return NOT_JAVA;
		blob += of->block_header;
		if (!read_user(&name, blob + of->blob_name) || !read_user(&kind, name) ||
		    !read_user(&words, blob + of->blob_frame_words))
			return NOT_JAVA;
		bool is_method = kind == NMETHOD || kind == NATIVE_NMETHOD;
		note_method(unwind, is_method ? blob + of->compiled_method :
						(blob + of->blob_name) | JAVA_STUB);
		words &= 0xffffffff;
		return words && words <= MAX_FRAME_WORDS ? words * 8 : BY_FRAME_POINTER;
	}
	return NOT_JAVA;
}

// Reads one of HotSpot's symbols. Returns its length, 0 if it could not be read.
static __always_inline u32 read_symbol(struct java *of, u8 *to, u32 room, u64 symbol)
{
	u16 len;
	if (bpf_probe_read_user(&len, 2, (void *)(symbol + of->symbol_len)))
		return 0;
	u32 size = len;
	if (size > room)
		size = room;
	// The verifier follows one comparison of this very number.
	barrier_var(size);
	if (size > room || bpf_probe_read_user(to, size, (void *)(symbol + of->symbol_text)))
		return 0;
	return size;
}

// Tells the recorder what the method is called whose number is `id`, once. `pool` and `name`: where
// the names are, or 0 and the pointer to the text.
__noinline int tell_method(u32 tgid, u64 id, u64 pool, u64 name)
{
	struct java *of = bpf_map_lookup_elem(&javas, &tgid);
	u64 mark, symbol;
	u64 *told = untold(tgid, id, &mark);
	if (!of || !told)
		return 0;
	struct method_hint *hint = bpf_ringbuf_reserve(&hints, sizeof(*hint), 0);
	if (!hint)
		return 0;
	hint->of.tgid = tgid;
	hint->of.what = JAVA_METHOD;
	hint->id = id;
	hint->unused = 0;
	u32 class_len = 0, name_len = 0;
	if (!pool) {
		long len = bpf_probe_read_user_str(hint->name, MAX_METHOD_NAME, (void *)name);
		name_len = len > 1 ? len - 1 : 0;
	} else if (read_user(&symbol, name)) {
		name_len = read_symbol(of, hint->name, MAX_METHOD_NAME, symbol);
		if (read_user(&symbol, pool + of->pool_class) &&
		    read_user(&symbol, symbol + of->class_name))
			class_len = read_symbol(of, hint->class_name, MAX_CLASS_NAME, symbol);
	}
	hint->class_len = class_len;
	hint->name_len = name_len;
	if (!name_len || (pool && !class_len)) {
		bpf_ringbuf_discard(hint, 0);
		return 0;
	}
	*told = mark;
	bpf_ringbuf_submit(hint, 0);
	return 0;
}

// The word for the method that `at` leads to; 0 if it cannot be read.
__noinline u64 method_word(u32 tgid, u64 at)
{
	struct java *of = bpf_map_lookup_elem(&javas, &tgid);
	u64 method;
	if (!of || !read_user(&method, at & ~(u64)JAVA_STUB))
		return 0;
	u64 of_method[4] = {};
	if (at & JAVA_STUB) {
		u64 id = id_of_code(method, of_method);
		tell_method(tgid, id, 0, method);
		return SCRIPT_MARK | SCRIPT_METHOD | id;
	}
	u16 index;
	u64 *constants = &of_method[0], *pool = &of_method[1];
	if (!read_user(constants, method + of->method_const) ||
	    !read_user(pool, *constants + of->const_pool) ||
	    bpf_probe_read_user(&index, 2, (void *)(*constants + of->const_name)))
		return 0;
	of_method[2] = index;
	u64 id = id_of_code(method, of_method);
	tell_method(tgid, id, *pool, *pool + of->pool_size + (u64)index * 8);
	return SCRIPT_MARK | SCRIPT_METHOD | id;
}
