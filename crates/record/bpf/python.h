// The frames of Python's threads, taken beside their native stacks. The recorder says where the
// interpreter of a process is, and where the fields of its structures are (`src/python`).
//
// A frame is one word: its code object and the instruction that it executes. The code object's name
// is not read here: the recorder is told of each new one, and reads it at once.
#pragma once

#include "kernel.h"
#include "ring.h"
#include "script.h"
#include "unwind_state.h"
#include <bpf/bpf_helpers.h>

#define MAX_PYTHON_FRAMES 48
// Threads among which the right one is looked for.
#define MAX_PYTHON_THREADS 128
#define PYTHON_FRAME_WORDS 16

// How a frame shows that a call of the interpreter's loop ends with it.
enum python_boundary {
	EACH_FRAME, // up to 3.10
	IS_ENTRY, // a flag (3.11)
	C_STACK_FRAME, // the next one is a frame of the C stack (from 3.12 on)
};
#define OWNED_BY_C_STACK 3

// What a frame says of its instruction.
enum python_instruction { IN_BYTES, IN_UNITS, POINTER };

// The interpreter of a process: offsets in bytes.
struct python {
	u64 interpreters; // address of the pointer to the first one
	u16 next_interpreter, first_thread, next_thread, thread_id;
	u16 frame; // of a thread: the innermost one
	u16 c_frame; // of what `frame` points to then; or NO_FIELD
	u16 previous, code;
	u16 instruction, boundary, names, instructions;
	u8 names_len; // 3 or 4
	u8 boundary_kind;
	u8 instruction_kind;
	u8 frame_words;
	u32 unused;
};
#define NO_FIELD 0xffff

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct python);
} pythons SEC(".maps");

struct code_hint {
	struct hint of;
	u64 id;
	u64 code;
};

// The walk over the frames of one thread.
struct python_walk {
	struct python of;
	u64 thread_id; // pthread_self()
	u64 interpreter; // while looking for the thread
	u64 thread;
	u64 frame; // the next one; 0 at the end
	u32 tgid;
	u32 frames; // that were found
	u64 words[PYTHON_FRAME_WORDS]; // of a frame
	u64 names[4]; // of its code object
};

static __always_inline bool read_field(u64 *to, u64 base, u32 offset)
{
	return read_user(to, base + offset);
}

// Tells the recorder of a code object, once.
static __always_inline void tell_code(u32 tgid, u64 id, u64 code)
{
	u64 mark, *told = untold(tgid, id, &mark);
	struct code_hint hint = { { tgid, CODE_OBJECT }, id, code };
	if (told)
		*told = bpf_ringbuf_output(&hints, &hint, sizeof(hint), 0) ? 0 : mark;
}

// A field of the frame that was read.
static __always_inline u64 frame_word(struct python_walk *walk, u32 offset)
{
	return walk->words[offset / 8 & (PYTHON_FRAME_WORDS - 1)];
}

static __always_inline u64 unit_of(struct python_walk *walk, u64 code)
{
	u64 at = frame_word(walk, walk->of.instruction);
	s64 offset = (s32)at;
	if (walk->of.instruction_kind == POINTER)
		offset = at - code - walk->of.instructions;
	// Before its first instruction it is at -1.
	u64 unit = offset < 0 ? 0 : offset;
	if (walk->of.instruction_kind != IN_UNITS)
		unit /= 2;
	return unit > SCRIPT_MAX_UNIT ? SCRIPT_MAX_UNIT : unit;
}

// Reads the next frame. Returns its word; 0 if it is no function, SCRIPT_CUT if it cannot be read.
__noinline u64 next_python_frame(struct python_walk *walk)
{
	if (!walk)
		return SCRIPT_CUT;
	u32 size = walk->of.frame_words * 8;
	if (!size || walk->frame & 7)
		return SCRIPT_CUT;
	// The verifier follows one comparison of this very number, and not one that clang joins to
	// another.
	barrier_var(size);
	if (size > sizeof(walk->words) || bpf_probe_read_user(walk->words, size, (void *)walk->frame))
		return SCRIPT_CUT;
	u32 boundary = walk->of.boundary;
	u8 flag = frame_word(walk, boundary) >> (boundary & 7) * 8;
	u64 code = frame_word(walk, walk->of.code);
	walk->frame = frame_word(walk, walk->of.previous);
	if (walk->of.boundary_kind == C_STACK_FRAME && flag == OWNED_BY_C_STACK)
		return 0;
	walk->names[3] = 0;
	size = walk->of.names_len == 4 ? 32 : 24;
	if (bpf_probe_read_user(walk->names, size, (void *)(code + walk->of.names)))
		return SCRIPT_CUT;
	u64 id = id_of_code(code, walk->names);
	bool outermost = walk->of.boundary_kind == EACH_FRAME ||
			 (walk->of.boundary_kind == IS_ENTRY && flag);
	tell_code(walk->tgid, id, code);
	return SCRIPT_MARK | (outermost ? SCRIPT_OUTERMOST : 0) |
	       unit_of(walk, code) << SCRIPT_UNIT_SHIFT | id;
}

// Goes on to the next thread of the process. Returns 1 if it is the one, 2 if there are no more.
__noinline int next_python_thread(struct python_walk *walk)
{
	if (!walk)
		return 2;
	u64 id;
	if (!walk->thread) {
		if (!read_field(&walk->interpreter, walk->interpreter, walk->of.next_interpreter) ||
		    !walk->interpreter ||
		    !read_field(&walk->thread, walk->interpreter, walk->of.first_thread))
			return 2;
		return 0;
	}
	if (!read_field(&id, walk->thread, walk->of.thread_id))
		return 2;
	if (id == walk->thread_id)
		return 1;
	return read_field(&walk->thread, walk->thread, walk->of.next_thread) ? 0 : 2;
}

// Looks for the thread's state: the one that it had last, or else among all. Returns 1 if it has one.
__noinline int find_python_thread(struct python_walk *walk)
{
	if (!walk)
		return 0;
	u64 id;
	if (walk->thread && read_field(&id, walk->thread, walk->of.thread_id) &&
	    id == walk->thread_id)
		return 1;
	walk->thread = 0;
	if (!read_user(&walk->interpreter, walk->of.interpreters) || !walk->interpreter ||
	    !read_field(&walk->thread, walk->interpreter, walk->of.first_thread))
		return 0;
	for (int i = 0; i < MAX_PYTHON_THREADS; i++) {
		int found = next_python_thread(walk);
		if (found)
			return found == 1;
	}
	return 0;
}

// The innermost frame of a thread; 0 for none.
static __always_inline u64 innermost_python_frame(struct python *of, u64 thread)
{
	u64 frame = 0;
	if (!read_field(&frame, thread, of->frame))
		return 0;
	if (frame && of->c_frame != NO_FIELD && !read_field(&frame, frame, of->c_frame))
		return 0;
	return frame;
}

// `parent`: the process that it was forked from, or 0.
static __always_inline struct python *python_of(u32 tgid, u32 parent)
{
	struct python *of = bpf_map_lookup_elem(&pythons, &tgid);
	// A child of which the recorder does not know yet has its parent's interpreter.
	return of || !parent ? of : bpf_map_lookup_elem(&pythons, &parent);
}

static __always_inline u32 forked_from(struct task_struct *task)
{
	return task->flags & PF_FORKNOEXEC ? task->real_parent->tgid : 0;
}

// Where a thread is in its script, as a number: from 3.11 on, calls between functions of a script
// do not show in the native stack. `thread`: its state.
__noinline u64 place_in_script(u32 tgid, u32 parent, u64 thread)
{
	struct python *of = python_of(tgid, parent);
	if (!of)
		return 0;
	u64 frame = innermost_python_frame(of, thread), at = 0;
	if (frame)
		read_field(&at, frame, of->instruction);
	return frame * 0x9e3779b97f4a7c15ull ^ at;
}
