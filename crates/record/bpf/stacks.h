// Takes stacks, within a budget, and defines each of them once.
#pragma once

#include "cache.h"
#include "java.h"
#include "kernel.h"
#include "python.h"
#include "ring.h"
#include "unwind.h"
#include "write.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct code {
	u64 start;
	u64 end;
};

// Set before loading.
const volatile u32 with_user_stacks = 1;
const volatile u64 min_wait_ns = 1000000; // one stack for each so much blocked time of a thread
// A wait is long if it took this many times as long.
#define LONG_WAITS 10
const volatile u32 budget_ppm = 10000; // time for stacks, in millionths of one CPU; 0: no limit
// The code at which an interrupt comes in; what is behind it in a stack was only interrupted.
const volatile struct code interrupt_code = {};
const volatile struct code schedule_code = {};
// What calls this program at a tracepoint.
#define TRACING_PARTS 6
const volatile struct code tracing_code[TRACING_PARTS] = {};
// Modules and BPF programs are above this.
const volatile u64 modules_start = ~0ull;

ARRAY(dictionary, struct known_stack, KNOWN_STACKS_PER_CPU, 0);

// Leaf frames that are this program's own.
#define MAX_OWN_FRAMES 8

// One per context that can interrupt another.
enum context { AT_EXIT, AT_WAKING, AT_SAMPLE, CONTEXTS };

// A stack that is being taken. Everything is here, and not in registers, so that the verifier
// forgets what it knows of it at each call of a global function.
struct scratch {
	struct unwind unwind;
	u64 now;
	u32 cpu;
	u32 tgid; // 0 for the kernel's stack
	u32 flags; // of `stack_record`
	u32 first; // frames before this one do not count
	u32 count;
	u64 key; // of the kernel's stack in the cache; 0 for none
	u64 called_at; // where in the kernel's stack the program was called
	u64 top; // where that stack ends
	u32 found; // return addresses that were found in `words`
	u32 words_len; // of `words`, in bytes
	u64 words[KERNEL_WORDS]; // of the kernel's stack from `called_at` on
	u32 was_cached;
	u32 differs; // from what was in the cache
	struct registers start; // at that frame
	struct python_walk python;
	u64 frames[MAX_FRAMES + MAX_OWN_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CONTEXTS);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// ---------------------------------------------------------------------------------- the budget

#define BUDGET_CAP_NS 10000000ll
#define REFILL_NS 1000000ull

// How long a wait must be to get a stack now: the less is left, the longer, so that the longest
// come first.
static __always_inline u64 wanted_wait_ns(u64 now)
{
	struct shared *shared = the_shared();
	if (!shared || !budget_ppm)
		return min_wait_ns;
	u64 refilled = shared->refilled_ns;
	if (now > refilled + REFILL_NS &&
	    __sync_val_compare_and_swap(&shared->refilled_ns, refilled, now) == refilled) {
		u64 elapsed = now - refilled;
		s64 more = elapsed > 10000000000ull ? BUDGET_CAP_NS
						    : (s64)(elapsed / 1000 * budget_ppm / 1000);
		s64 room = BUDGET_CAP_NS - shared->budget_ns;
		__sync_fetch_and_add(&shared->budget_ns, more < room ? more : room);
	}
	s64 left = shared->budget_ns;
	u64 wait = min_wait_ns;
	if (left < BUDGET_CAP_NS / 2)
		wait *= 2;
	if (left < BUDGET_CAP_NS / 4)
		wait *= 2;
	if (left < 0)
		wait *= 4;
	if (left < -BUDGET_CAP_NS / 2)
		wait *= 4;
	if (left < -BUDGET_CAP_NS)
		wait *= 4;
	if (left < -BUDGET_CAP_NS * 3 / 2)
		wait *= 4;
	return wait;
}

static __always_inline void spend(u64 since)
{
	u64 spent = bpf_ktime_get_ns() - since;
	struct shared *shared = the_shared();
	// A debt is limited: what was spent once must not silence the recorder for long.
	if (shared && shared->budget_ns > -BUDGET_CAP_NS * 2)
		__sync_fetch_and_add(&shared->budget_ns, -(s64)spent);
}

// ---------------------------------------------------------------------------------- the stacks

// Returns the position of a definition of the stack in the ring, in words; 0 without a stack. It is
// written anew each time the ring has gone a quarter on, and says where it was written before: so
// what the ring holds finds its stacks in it, also when the ring has been overwritten many times.
__noinline u32 define(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	u32 frames = scratch->count, cpu = scratch->cpu, first = scratch->first;
	struct cpu_ring *ring = bpf_map_lookup_elem(&cpus, &cpu);
	if (!ring || !frames || frames > MAX_FRAMES || first >= MAX_OWN_FRAMES)
		return 0;
	u64 hash = ((u64)scratch->tgid << 8 | scratch->flags) * 0x9e3779b97f4a7c15ull + frames;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		hash = (hash ^ scratch->frames[first + i]) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	u32 slot = cpu * KNOWN_STACKS_PER_CPU + (hash & (KNOWN_STACKS_PER_CPU - 1));
	struct known_stack *known = bpf_map_lookup_elem(&dictionary, &slot);
	if (!known)
		return 0;
	u64 quarter = (u64)blocks_per_cpu * BLOCK_BYTES / 4;
	u64 position = *(volatile u64 *)&known->position;
	bool is_known = position && (*(volatile u64 *)&known->check ^ position) == hash;
	if (is_known && ring->head - position < quarter)
		return position / 8;

	struct place at;
	u32 len = sizeof(struct stack_record) + (frames + 1) * 8;
	if (!reserve(&at, ring, cpu, scratch->now, len, MAX_RECORD_BYTES))
		return 0;
	// As reserved; this is for the verifier, that of Linux 6.1 only believes a check of this very number.
	u32 offset = at.offset, size = scratch->count * 8;
	barrier_var(size);
	if (offset > BLOCK_BYTES - MAX_RECORD_BYTES || size > MAX_FRAMES * 8)
		return 0;
	u8 *record = at.block + offset;
	struct stack_record *header = (void *)record;
	header->word = LONG_WORD(at.delta_ns, STACK, len / 8, scratch->flags);
	header->tgid = scratch->tgid;
	header->frames = frames;
	bpf_probe_read_kernel(record + sizeof(*header), size, &scratch->frames[first]);
	*(u64 *)(record + sizeof(*header) + size) = is_known ? position / 8 : 0;
	known->position = at.position;
	known->check = hash ^ at.position;
	return at.position / 8;
}

// Frames of a stack as one number.
__noinline u64 hash_frames(struct scratch *scratch)
{
	if (!scratch || scratch->first >= MAX_OWN_FRAMES)
		return 0;
	u64 hash = scratch->count;
	u32 first = scratch->first;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= scratch->count)
			break;
		hash = (hash ^ scratch->frames[first + i]) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	return hash;
}

// Whether a word of the stack is as it was. If it is a return address, it is the next frame. The
// count of frames is in memory, so that the verifier does not follow each of its values.
__noinline int check_word(struct scratch *scratch, u32 index)
{
	if (!scratch || index >= MAX_WORDS_READ)
		return 0;
	struct registers *at = &scratch->unwind.at;
	struct cached_user_stack *known = user_entry(scratch->cpu, at, scratch->tgid);
	u64 word;
	if (!known ||
	    !read_word(&scratch->unwind.window, &word,
		       at->sp + (u64)known->read.offsets[index] * 8) ||
	    word != known->read.values[index])
		return 0;
	if (known->read.returns >> index & 1) {
		u32 count = scratch->count;
		if (count >= MAX_FRAMES)
			return 0;
		scratch->frames[count] = word;
		scratch->count = count + 1;
	}
	return 1;
}

// Takes the rest of the stack from the cache, if every word that was read then is still the same.
// Returns 1 if it was.
__noinline int take_cached(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	struct unwind *unwind = &scratch->unwind;
	struct cached_user_stack *known = user_entry(scratch->cpu, &unwind->at, scratch->tgid);
	if (!known)
		return 0;
	u64 sequence = *(volatile u64 *)&known->sequence;
	if (sequence & 1 || !known->frames || known->tgid != scratch->tgid ||
	    known->generation != unwind->generation || !same_registers(&known->start, &unwind->at))
		return 0;
	u32 first = unwind->resumed_at & 1;
	scratch->frames[first] = unwind->at.ip;
	scratch->count = first + 1;
	for (u32 i = 0; i < MAX_WORDS_READ; i++) {
		if (i >= known->read.count)
			break;
		if (!check_word(scratch, i))
			return 0;
	}
	// The last return address read may not have been code.
	if (scratch->count < first + known->frames)
		return 0;
	scratch->count = first + known->frames;
	unwind->end = known->end;
	if (unwind->java_tgid)
		bpf_probe_read_kernel(&unwind->java, sizeof(unwind->java), &known->java);
	return *(volatile u64 *)&known->sequence == sequence;
}

// Remembers what was unwound since `start`.
__noinline int remember(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	struct unwind *unwind = &scratch->unwind;
	if (unwind->read.count > MAX_WORDS_READ || !unwind->read.count || !unwind->mappings ||
	    unwind->leaf_unknown || unwind->end == ENDS_AT_UNREAD_MEMORY || scratch->count <= unwind->resumed_at)
		return 0;
	struct cached_user_stack *known = user_entry(scratch->cpu, &scratch->start, scratch->tgid);
	if (!known || known->sequence & 1)
		return 0;
	*(volatile u64 *)&known->sequence += 1;
	known->start = scratch->start;
	known->tgid = scratch->tgid;
	known->generation = unwind->generation;
	known->frames = scratch->count - unwind->resumed_at;
	known->end = unwind->end;
	bpf_probe_read_kernel(&known->read, sizeof(known->read), &unwind->read);
	if (unwind->java_tgid)
		bpf_probe_read_kernel(&known->java, sizeof(known->java), &unwind->java);
	*(volatile u64 *)&known->sequence += 1;
	return 0;
}

// Takes frames from `unwind` on up to the start of the thread. The instruction that a sample
// interrupts is mostly another one each time, so that a sample looks for its caller in the cache.
__noinline int unwind_all(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	struct unwind *unwind = &scratch->unwind;
	u64 expected = 0;
	unwind->end = ENDS_TOO_DEEP;
	scratch->differs = 0;
	scratch->was_cached = 0;
	for (u32 i = 0; i < MAX_UNWIND_STEPS; i++) {
		if (i == unwind->resumed_at) {
			scratch->start = unwind->at;
			unwind->read.from = unwind->at.sp;
			unwind->read.count = 0;
			unwind->read.returns = 0;
			if (take_cached(scratch)) {
				scratch->was_cached = 1;
				if (!compare_stacks)
					return 0;
				expected = hash_frames(scratch);
				unwind->end = ENDS_TOO_DEEP;
			}
			unwind->java.count = 0;
		}
		unwind->index = i;
		scratch->frames[i] = unwind->at.ip;
		scratch->count = i + 1;
		int ended = unwind_step(unwind);
		if (ended) {
			if (ended == 2)
				scratch->count = i;
			break;
		}
	}
	if (expected)
		scratch->differs = expected != hash_frames(scratch);
	else
		remember(scratch);
	return 0;
}

// Whether the thread was in 64-bit code when it entered the kernel: 32-bit code is not unwound.
static __always_inline bool is_64_bit(struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	return regs->cs == USER_CS;
}

// Prepares to unwind the current thread's stack in user mode.
static __always_inline void start_unwinding(struct scratch *scratch, struct task_struct *task)
{
	struct unwind *unwind = &scratch->unwind;
	struct registers *at = &unwind->at;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u32 tgid = task->tgid;
	struct mappings_of *of = bpf_map_lookup_elem(&processes, &tgid);
	if (!of)
		want_mappings(tgid, PROCESS_UNKNOWN, scratch->now);
	if (!of && task->flags & PF_FORKNOEXEC) {
		// A child of which the recorder does not know yet has its parent's mappings.
		u32 parent = task->real_parent->tgid;
		of = bpf_map_lookup_elem(&processes, &parent);
	}
	at->ip = regs->ip;
	at->sp = regs->sp;
	at->bp = regs->bp;
	at->leaf = 1;
	unwind->first_mapping = of ? of->first : 0;
	unwind->mappings = of ? of->count : 0;
	unwind->generation = of ? of->generation : 0;
	unwind->window.len = 0;
	unwind->leaf_unknown = 0;
	unwind->java_leaf = 0;
	unwind->java.count = 0;
	unwind->java_tgid = bpf_map_lookup_elem(&javas, &tgid) ? tgid : 0;
}

static __always_inline bool is_in(const volatile struct code *code, u64 address)
{
	return address >= code->start && address < code->end;
}

// Drops the frames of this program and of what called it.
__noinline int drop_own(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	u32 first = 0;
	for (; first < MAX_OWN_FRAMES - 1; first++) {
		u64 address = scratch->frames[first];
		bool own = address >= modules_start;
		for (u32 i = 0; i < TRACING_PARTS; i++)
			own |= is_in(&tracing_code[i], address);
		if (!own)
			break;
	}
	scratch->first = first;
	scratch->count = scratch->count > first ? scratch->count - first : 0;
	return 0;
}

// Drops the kernel's frames from where an interrupt came in. Returns 1 if there was one.
__noinline int drop_interrupted(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	u32 frames = scratch->count, first = scratch->first;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames || first >= MAX_OWN_FRAMES)
			break;
		if (is_in(&interrupt_code, scratch->frames[first + i])) {
			scratch->count = i;
			return 1;
		}
	}
	return 0;
}

// How many bytes above the place where a thread left its CPU the return address to the caller of
// schedule() is: the same for all threads, because only frames of fixed size lie between. Learned
// from the first stack. `left_at`: the place; `at`: a place below the return address.
static __always_inline void learn_caller(struct scratch *scratch, u64 left_at, u64 at)
{
	struct shared *shared = the_shared();
	u32 first = scratch->first;
	if (!shared || shared->caller_offset || first >= MAX_OWN_FRAMES || scratch->count < 3 ||
	    !is_in(&schedule_code, scratch->frames[first + 1]))
		return;
	u64 caller = scratch->frames[first + 2];
	for (u32 i = 0; i < 96; i++) {
		u64 word;
		if (bpf_probe_read_kernel(&word, 8, (void *)(at + i * 8)))
			return;
		if (word == caller) {
			u64 offset = at + i * 8 - left_at;
			if (offset < 1024)
				shared->caller_offset = offset;
			return;
		}
	}
}

// The return address to the function that called schedule(); 0 if it is not known.
static __always_inline u64 caller_of_schedule(u64 left_at)
{
	struct shared *shared = the_shared();
	u64 caller = 0;
	if (shared && shared->caller_offset)
		bpf_probe_read_kernel(&caller, 8, (void *)(left_at + shared->caller_offset));
	return caller;
}

// Reads the kernel's stack. Returns false if it cannot be read.
static __always_inline bool read_kernel_words(struct scratch *scratch)
{
	u64 len = scratch->top - scratch->called_at;
	if (scratch->top <= scratch->called_at)
		return false;
	if (len > sizeof(scratch->words))
		len = sizeof(scratch->words);
	scratch->words_len = len;
	return !bpf_probe_read_kernel(scratch->words, len, (void *)scratch->called_at);
}

// Adds the frames of the thread's script to its native stack. They come after it: the reader joins
// the two, because only it knows where the interpreter's loop is.
__noinline int take_python_frames(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	struct python_walk *walk = &scratch->python;
	u32 last = MAX_FRAMES;
	for (u32 i = 0; i < MAX_PYTHON_FRAMES; i++) {
		u32 count = scratch->count;
		if (!walk->frame || count >= MAX_FRAMES)
			break;
		u64 word = i + 1 < MAX_PYTHON_FRAMES && count + 1 < MAX_FRAMES ?
				   next_python_frame(walk) :
				   SCRIPT_CUT;
		if (!word) {
			// The frame before it ends a call of the loop.
			if (last < MAX_FRAMES)
				scratch->frames[last] |= SCRIPT_OUTERMOST;
			continue;
		}
		scratch->frames[count] = word;
		scratch->count = count + 1;
		if (word == SCRIPT_CUT)
			return 0;
		last = count;
	}
	if (last < MAX_FRAMES)
		scratch->frames[last] |= SCRIPT_OUTERMOST;
	return 0;
}

// Puts the word for a method in place of a frame's address.
static __always_inline void name_frame(struct scratch *scratch, u64 at, u32 index)
{
	u64 word = method_word(scratch->tgid, at);
	if (word && index < MAX_FRAMES)
		scratch->frames[index] = word;
}

// Puts the words for methods in place of the addresses of Java's frames.
__noinline int name_java_frames(struct scratch *scratch)
{
	if (!scratch)
		return 0;
	struct unwind *unwind = &scratch->unwind;
	if (unwind->java_leaf)
		name_frame(scratch, unwind->java_leaf, 0);
	for (u32 i = 0; i < MAX_JAVA_FRAMES; i++) {
		if (i >= unwind->java.count)
			break;
		u64 at = unwind->java.at[i];
		u64 index = (at >> JAVA_INDEX_SHIFT) + unwind->resumed_at;
		if (index < scratch->count)
			name_frame(scratch, at & JAVA_ADDRESS, index);
	}
	return 0;
}

// Adds the frames of the current thread's script, if it executes one.
static __always_inline void add_python_frames(struct scratch *scratch, struct cpu_ring *ring,
					      struct task_struct *task)
{
	struct python *of = python_of(task->tgid, forked_from(task));
	if (!of)
		return;
	u32 tid = task->pid;
	struct task_slot *slot = slot_of(tid);
	struct python_walk *walk = &scratch->python;
	walk->of = *of;
	walk->tgid = task->tgid;
	walk->thread_id = task->thread.fsbase;
	walk->thread = ring->python;
	bool found = find_python_thread(walk);
	ring->python = found ? walk->thread : 0;
	if (slot)
		slot->python = ring->python;
	walk->frame = found ? innermost_python_frame(of, walk->thread) : 0;
	take_python_frames(scratch);
}

// The address below the registers of user mode, or what is there.
static __always_inline u64 word_at_top(struct scratch *scratch)
{
	u64 word = 0;
	bpf_probe_read_kernel(&word, 8, (void *)(scratch->top - 8));
	return word;
}

// Whether a return address of the kernel's stack is still where it was. It is the next frame.
__noinline int check_return(struct scratch *scratch, u32 index)
{
	if (!scratch || index >= CACHED_FRAMES)
		return 0;
	struct cached_kernel_stack *known = kernel_entry(scratch->cpu, scratch->key);
	if (!known)
		return 0;
	u32 offset = known->offsets[index];
	u64 word = scratch->words[offset & (KERNEL_WORDS - 1)];
	if (offset == AT_TOP)
		word = word_at_top(scratch);
	else if (offset * 8 >= scratch->words_len)
		return 0;
	if (word != known->frames[index])
		return 0;
	scratch->frames[index] = word;
	return 1;
}

// Takes the kernel's stack from the cache, if each return address is still where it was. Returns 1
// if it was.
__noinline int take_cached_kernel(struct scratch *scratch)
{
	if (!scratch || !scratch->key)
		return 0;
	struct cached_kernel_stack *known = kernel_entry(scratch->cpu, scratch->key);
	if (!known)
		return 0;
	u64 sequence = *(volatile u64 *)&known->sequence;
	u32 count = known->count;
	if (sequence & 1 || known->key != scratch->key || !count || !read_kernel_words(scratch))
		return 0;
	for (u32 i = 0; i < CACHED_FRAMES; i++) {
		if (i >= known->count)
			break;
		if (!check_return(scratch, i))
			return 0;
	}
	scratch->first = 0;
	scratch->count = count;
	return *(volatile u64 *)&known->sequence == sequence;
}

// Looks for one word among the return addresses that are not found yet.
__noinline int find_return(struct scratch *scratch, u32 offset)
{
	if (!scratch || offset >= KERNEL_WORDS)
		return 0;
	struct cached_kernel_stack *known = kernel_entry(scratch->cpu, scratch->key);
	u32 found = scratch->found, frame = scratch->first + found;
	if (!known || found >= CACHED_FRAMES || frame >= MAX_FRAMES ||
	    scratch->frames[frame] != scratch->words[offset])
		return 0;
	known->offsets[found] = offset;
	known->frames[found] = scratch->words[offset];
	scratch->found = found + 1;
	return 1;
}

// Remembers where the return addresses of the kernel's stack are.
__noinline int remember_kernel(struct scratch *scratch)
{
	if (!scratch || !scratch->key)
		return 0;
	u32 count = scratch->count, last = scratch->first + count - 1;
	struct cached_kernel_stack *known = kernel_entry(scratch->cpu, scratch->key);
	if (!known || known->sequence & 1 || !count || count > CACHED_FRAMES || last >= MAX_FRAMES ||
	    !read_kernel_words(scratch))
		return 0;
	*(volatile u64 *)&known->sequence += 1;
	scratch->found = 0;
	for (u32 i = 0; i < KERNEL_WORDS; i++) {
		if (i * 8 >= scratch->words_len || scratch->found >= count)
			break;
		find_return(scratch, i);
	}
	// The kernel puts a random distance between the entry of a system call and what it calls.
	u32 top = count - 1;
	barrier_var(top); // the verifier of Linux 6.1 only believes a check of this very number
	if (top < CACHED_FRAMES && scratch->frames[last] == word_at_top(scratch) &&
	    scratch->found + 1 >= count) {
		known->offsets[top] = AT_TOP;
		known->frames[top] = scratch->frames[last];
		scratch->found = count;
	}
	known->key = scratch->key;
	known->count = scratch->found == count ? count : 0;
	*(volatile u64 *)&known->sequence += 1;
	return 0;
}

// The kernel's and the user's stack of the current thread. Returns true if an interrupt called,
// which has nothing to do with that thread.
static __always_inline bool stacks(void *ctx, struct cpu_ring *ring, u32 cpu, u64 now,
				   enum context context, u64 left_at, u32 place,
				   u32 *kernel_stack, u32 *user_stack)
{
	u32 key = context;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &key);
	if (!scratch)
		return false;
	scratch->now = now;
	scratch->cpu = cpu;
	scratch->tgid = 0;
	scratch->flags = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	scratch->called_at = address_of(ring, ctx);
	// An interrupt's own stack begins at the end of a page, always at the same one. All return
	// addresses up to where it came in are on it.
	bool interrupt_stack = context == AT_WAKING && !is_on_own_stack(ring, ctx, task);
	if (interrupt_stack) {
		scratch->key = scratch->called_at;
		scratch->top = (scratch->called_at | (PAGE_BYTES - 1)) + 1;
	} else {
		scratch->key = place ? place | (u64)(context + 1) << 32 : 0;
		scratch->top = task->flags & PF_KTHREAD ? (u64)task->stack + KERNEL_STACK_BYTES
							: (u64)bpf_task_pt_regs(task);
	}
	u64 expected = 0;
	bool cached = take_cached_kernel(scratch), in_interrupt = cached && interrupt_stack;
	if (cached && compare_stacks)
		expected = hash_frames(scratch);
	if (!cached || compare_stacks) {
		long bytes = bpf_get_stack(ctx, scratch->frames, MAX_FRAMES * 8, 0);
		scratch->first = 0;
		scratch->count = bytes > 0 ? (u32)bytes / 8 : 0;
		if (context != AT_SAMPLE)
			drop_own(scratch);
		in_interrupt = context == AT_WAKING && drop_interrupted(scratch);
		if (left_at)
			learn_caller(scratch, left_at, scratch->called_at);
		if (!cached && in_interrupt == interrupt_stack)
			remember_kernel(scratch);
	}
	ring->cached += scratch->key && cached;
	if (expected)
		ring->differed += expected != hash_frames(scratch);
	*kernel_stack = define(scratch);
	if (in_interrupt || !with_user_stacks || task->flags & PF_KTHREAD)
		return in_interrupt;
	scratch->first = 0;
	start_unwinding(scratch, task);
	scratch->tgid = task->tgid;
	scratch->unwind.resumed_at = context == AT_SAMPLE;
	if (is_64_bit(task)) {
		unwind_all(scratch);
		// However it ended: by frame pointers alone, callers may be missing.
		if (!scratch->unwind.mappings)
			scratch->unwind.end = ENDS_WITHOUT_TABLES;
		else if (scratch->unwind.leaf_unknown)
			scratch->unwind.end = ENDS_OUTSIDE_CODE;
		ring->cached += scratch->was_cached;
		ring->differed += scratch->differs;
		if (scratch->unwind.java_tgid)
			name_java_frames(scratch);
		add_python_frames(scratch, ring, task);
	} else {
		scratch->frames[0] = scratch->unwind.at.ip;
		scratch->count = 1;
		scratch->unwind.end = ENDS_WITHOUT_RULE;
	}
	if (scratch->unwind.end == ENDS_OUTSIDE_CODE)
		want_mappings(scratch->tgid, CODE_UNKNOWN, now);
	scratch->flags = USER_STACK | scratch->unwind.end << 1;
	*user_stack = define(scratch);
	return false;
}

// The kernel's stack of the thread that is about to come on. Its user stack is out of reach: the
// memory is still that of the thread that leaves.
static __always_inline u32 stack_of_next(u32 cpu, u64 now, struct task_struct *next)
{
	u32 key = AT_EXIT;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &key);
	if (!scratch)
		return 0;
	scratch->now = now;
	scratch->cpu = cpu;
	scratch->tgid = 0;
	scratch->flags = 0;
	scratch->first = 0;
	long bytes = bpf_get_task_stack(next, scratch->frames, MAX_FRAMES * 8, 0);
	scratch->count = bytes > 0 ? (u32)bytes / 8 : 0;
	return define(scratch);
}
