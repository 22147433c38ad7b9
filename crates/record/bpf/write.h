// Writes records to the ring of a CPU.
#pragma once

#include "kernel.h"
#include "ring.h"
#include "watch.h"
#include <bpf/bpf_helpers.h>

// Set before loading.
const volatile u32 blocks_per_cpu = 1; // a power of two

// Resized to the machine before loading.
ARRAY(blocks, struct block, 1, BPF_F_MMAPABLE);
ARRAY(cpus, struct cpu_ring, 1, BPF_F_MMAPABLE);
ARRAY(tasks, struct task_slot, TASK_SLOTS, BPF_F_MMAPABLE);

// What all CPUs use, in one cache line.
struct shared {
	struct watched watched; // first, as in src/bpf/watcher.rs
	u64 places_from; // see `let_places_age`
	s64 budget_ns; // what is left of it
	u64 refilled_ns;
	u64 caller_offset; // see `caller_of_schedule`
};
ARRAY(shared, struct shared, 1, BPF_F_MMAPABLE);

static __always_inline struct shared *the_shared(void)
{
	u32 key = 0;
	return bpf_map_lookup_elem(&shared, &key);
}

// Where the slot of a thread may be: `nth` from 0, until TASK_PLACES. Ids come in runs, so the places
// are far apart.
static __always_inline u32 place_of_slot(u32 tid, u32 nth)
{
	return (nth ? (tid * 0x9e3779b1u >> 16) + nth * 0x5555 : tid) & (TASK_SLOTS - 1);
}

// Where the slot of a thread is; NO_SLOT if it has none. If `take` is set, it then takes one that is
// free, or else that of another thread, whose wait is forgotten. *Why a function that returns a
// number*: the verifier follows it once, not each time that it is called.
#define NO_SLOT TASK_SLOTS
__noinline u32 find_slot(u32 tid, u32 take)
{
	u32 taken = NO_SLOT;
	for (u32 nth = 0; nth < TASK_PLACES; nth++) {
		u32 key = place_of_slot(tid, nth);
		struct task_slot *slot = bpf_map_lookup_elem(&tasks, &key);
		if (!slot)
			return NO_SLOT;
		if (slot->tid == tid)
			return key;
		if (!slot->tid && taken == NO_SLOT)
			taken = key;
	}
	if (!take)
		return NO_SLOT;
	if (taken == NO_SLOT)
		taken = place_of_slot(tid, 0);
	struct task_slot *slot = bpf_map_lookup_elem(&tasks, &taken);
	if (!slot)
		return NO_SLOT;
	__builtin_memset(slot, 0, sizeof(*slot));
	slot->tid = tid;
	slot->prio = UNKNOWN_PRIO;
	return taken;
}

static __always_inline struct task_slot *slot_in(u32 key)
{
	return bpf_map_lookup_elem(&tasks, &key);
}

// The slot of a thread, if it has one.
static __always_inline struct task_slot *slot_of(u32 tid)
{
	return slot_in(find_slot(tid, false));
}

// Since when a thread is blocked; 0 if it is not.
static __always_inline u64 blocked_since(struct task_slot *slot)
{
	return slot->is_blocked ? slot->since_ns : 0;
}

static __always_inline u32 state_of(bool preempt, u32 bits)
{
	if (preempt)
		return PREEMPTED;
	if ((bits & 0x402) == 0x402) // TASK_IDLE
		return IDLE;
	if (bits & 0x1002) // TASK_UNINTERRUPTIBLE, TASK_RTLOCK_WAIT
		return DISK_SLEEP;
	if (bits & 0x01)
		return SLEEPING;
	if (bits & 0x04)
		return STOPPED;
	if (bits & 0x08)
		return TRACED;
	if (bits & 0x40)
		return PARKED;
	if (bits & 0xb0) // TASK_DEAD, EXIT_DEAD, EXIT_ZOMBIE
		return DEAD;
	return bits ? SLEEPING : RUNNABLE;
}

// A block begins at `position`. The stacks of places count from when on the ring that is overwritten
// fastest has gone an eighth on.
__noinline int let_places_age(u32 cpu, u64 position)
{
	u32 index = cpu * blocks_per_cpu +
		    ((position / BLOCK_BYTES - blocks_per_cpu / 8) & (blocks_per_cpu - 1));
	struct block *block = bpf_map_lookup_elem(&blocks, &index);
	struct shared *shared = the_shared();
	if (!block || !shared)
		return 0;
	u64 begun = ((struct block_header *)block->bytes)->base_ns;
	if (begun > shared->places_from)
		shared->places_from = begun;
	return 0;
}

// Where a record was reserved.
struct place {
	struct cpu_ring *ring;
	u8 *block;
	u32 offset;
	u32 delta_ns;
	u64 position;
};

// Reserves `len` bytes in a block that has room for `room` more. Programs interrupt each other on
// one CPU only, and the interrupting one ends first, so that a failed exchange is rare.
static __always_inline bool reserve(struct place *at, struct cpu_ring *ring, u32 cpu, u64 now,
				    u32 len, u32 room)
{
	for (int attempt = 0; attempt < 4; attempt++) {
		u64 head = *(volatile u64 *)&ring->head;
		u64 base = *(volatile u64 *)&ring->base_ns;
		u32 used = head & (BLOCK_BYTES - 1);
		// An interrupted program may have taken the block, but not begun it.
		bool begun = *(volatile u64 *)&ring->begun == head / BLOCK_BYTES + 1;
		// Signed: an interrupting program may have begun the block a little later than `now`.
		bool next = used == 0 || !begun || used + room > BLOCK_BYTES ||
			    (s64)(now - base) > (s64)MAX_DELTA_NS;
		u64 start = next && used ? (head | (BLOCK_BYTES - 1)) + 1 : head;
		u64 position = next ? start + sizeof(struct block_header) : start;
		if (__sync_val_compare_and_swap(&ring->head, head, position + len) != head)
			continue;
		u32 index = cpu * blocks_per_cpu +
			    ((position / BLOCK_BYTES) & (blocks_per_cpu - 1));
		struct block *block = bpf_map_lookup_elem(&blocks, &index);
		if (!block)
			return false;
		if (next) {
			// Ends the last block, for who reads it.
			if (used && used <= BLOCK_BYTES - 8) {
				u32 last = cpu * blocks_per_cpu +
					   ((head / BLOCK_BYTES) & (blocks_per_cpu - 1));
				struct block *before = bpf_map_lookup_elem(&blocks, &last);
				if (before)
					*(u64 *)(before->bytes + (used & (BLOCK_BYTES - 8))) = 0;
			}
			struct block_header *header = (void *)block->bytes;
			header->number = position / BLOCK_BYTES + 1;
			header->base_ns = now;
			header->current = ring->current;
			header->cpu = cpu;
			*(volatile u64 *)&ring->base_ns = now;
			*(volatile u64 *)&ring->begun = header->number;
			base = now;
			let_places_age(cpu, position);
		}
		at->ring = ring;
		at->block = block->bytes;
		at->offset = position & (BLOCK_BYTES - 1);
		at->delta_ns = now > base ? now - base : 0;
		at->position = position;
		return true;
	}
	ring->not_reserved++;
	return false;
}

// Programs on one CPU end in the reverse order of their beginning: when the first one ends, all
// that was reserved has been written.
static __always_inline struct cpu_ring *enter(u32 cpu)
{
	struct cpu_ring *ring = bpf_map_lookup_elem(&cpus, &cpu);
	if (ring)
		ring->depth++;
	return ring;
}

static __always_inline void leave(struct cpu_ring *ring)
{
	if (--ring->depth != 0)
		return;
	*(volatile u64 *)&ring->written = *(volatile u64 *)&ring->head;
	// Twice: what interrupts the first copy has told of more, which that takes back.
	*(volatile u64 *)&ring->written = *(volatile u64 *)&ring->head;
}

// A pointer as a number: the verifier lets nobody calculate with one that was not in a map.
static __always_inline u64 address_of(struct cpu_ring *ring, void *pointer)
{
	*(volatile u64 *)&ring->context = (u64)pointer;
	return *(volatile u64 *)&ring->context;
}

// Whether a program was called on the stack of the thread, and not on one of interrupts.
static __always_inline bool is_on_own_stack(struct cpu_ring *ring, void *ctx,
					    struct task_struct *task)
{
	return address_of(ring, ctx) - (u64)task->stack < KERNEL_STACK_BYTES;
}

// Whether the thread is in the kernel because of an interrupt or an exception, and not of a system
// call: these interrupt user mode on the thread's own stack.
static __always_inline bool was_interrupted(struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		return false;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	return (s64)regs->orig_ax == -1;
}

// Reserves a record and writes its first word. NULL without room.
static __always_inline void *new_record(struct cpu_ring *ring, u32 cpu, u64 now, u32 kind,
					u32 flags, u32 len)
{
	struct place at;
	if (!reserve(&at, ring, cpu, now, len, len) || at.offset > BLOCK_BYTES - len)
		return 0;
	u64 *word = (void *)(at.block + at.offset);
	*word = LONG_WORD(at.delta_ns, kind, len / 8, flags);
	return word;
}
#define NEW_RECORD(RING, CPU, NOW, KIND, FLAGS, TYPE)                                             \
	((struct TYPE *)new_record(RING, CPU, NOW, KIND, FLAGS, sizeof(struct TYPE)))

static __always_inline void write_short(struct cpu_ring *ring, u32 cpu, u64 now, u32 type,
					u32 payload)
{
	struct place at;
	if (!reserve(&at, ring, cpu, now, 8, 8) || at.offset > BLOCK_BYTES - 8)
		return;
	*(u64 *)(at.block + at.offset) = WORD(at.delta_ns, type, payload);
}
