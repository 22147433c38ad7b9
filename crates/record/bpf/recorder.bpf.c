// The kernel's part of the recorder: writes every switch and every wake-up, and the stacks of the
// waits that were long, to a ring per CPU. The format of the ring is in ring.h.
//
// Contexts: `sched_switch` runs with the run-queue lock held, so it only writes numbers. A stack is
// taken at `sched_exit`, when the thread that waited is back on a CPU with its stack as it was, and
// at the wake-up that ended the wait. Samples interrupt both.

#include "kernel.h"
#include "ring.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Set before loading.
const volatile u32 blocks_per_cpu = 1; // a power of two
const volatile u64 min_wait_ns = 1000000; // a shorter wait has no stack
const volatile u32 with_user_stacks = 1;

#define ARRAY(NAME, VALUE, ENTRIES, FLAGS)                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, FLAGS);                                                          \
		__uint(max_entries, ENTRIES);                                                      \
		__type(key, u32);                                                                  \
		__type(value, VALUE);                                                              \
	} NAME SEC(".maps")

// Resized to the machine before loading.
ARRAY(blocks, struct block, 1, BPF_F_MMAPABLE);
ARRAY(cpus, struct cpu_ring, 1, BPF_F_MMAPABLE);
ARRAY(dictionary, struct known_stack, KNOWN_STACKS_PER_CPU, 0);
ARRAY(tasks, struct task_slot, TASK_SLOTS, 0);

// One per context that can interrupt another.
enum context { AT_EXIT, AT_WAKING, AT_SAMPLE, CONTEXTS };

struct scratch {
	u64 frames[MAX_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CONTEXTS);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// ---------------------------------------------------------------------------------- the ring

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
		bool next = used == 0 || used + room > BLOCK_BYTES || now - base > MAX_DELTA_NS;
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
			ring->base_ns = now;
			base = now;
		}
		at->ring = ring;
		at->block = block->bytes;
		at->offset = position & (BLOCK_BYTES - 1);
		// An interrupting program may have begun the block a little later than `now`.
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
	if (--ring->depth == 0)
		*(volatile u64 *)&ring->written = ring->head;
}

static __always_inline void write_short(struct cpu_ring *ring, u32 cpu, u64 now, u32 type,
					u32 payload)
{
	struct place at;
	if (!reserve(&at, ring, cpu, now, 8, 8) || at.offset > BLOCK_BYTES - 8)
		return;
	*(u64 *)(at.block + at.offset) = WORD(at.delta_ns, type, payload);
}

// --------------------------------------------------------------------------------- the stacks

// The position of the stack's last definition in the ring, in words; written anew if that has been
// overwritten. 0 without a stack.
static __always_inline u32 define(struct cpu_ring *ring, u32 cpu, u64 now, struct scratch *scratch,
				  long bytes, u32 flags, u32 tgid)
{
	if (bytes <= 0 || bytes > sizeof(scratch->frames))
		return 0;
	u32 frames = (u32)bytes / 8;
	u64 hash = ((u64)tgid << 8 | flags) * 0x9e3779b97f4a7c15ull + frames;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		hash = (hash ^ scratch->frames[i]) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	u32 slot = cpu * KNOWN_STACKS_PER_CPU + (hash & (KNOWN_STACKS_PER_CPU - 1));
	struct known_stack *known = bpf_map_lookup_elem(&dictionary, &slot);
	if (!known)
		return 0;
	// A block that is about to be overwritten counts as gone.
	u64 held = (u64)(blocks_per_cpu - 1) * BLOCK_BYTES;
	if (known->hash == hash && known->position &&
	    ring->head - known->position + 2 * MAX_RECORD_BYTES < held)
		return known->position / 8;

	struct place at;
	u32 len = sizeof(struct stack_record) + frames * 8;
	if (!reserve(&at, ring, cpu, now, len, MAX_RECORD_BYTES))
		return 0;
	// As reserved; this is for the verifier.
	u32 offset = at.offset;
	if (offset > BLOCK_BYTES - MAX_RECORD_BYTES)
		return 0;
	struct stack_record *record = (void *)(at.block + offset);
	record->word = LONG_WORD(at.delta_ns, STACK, len / 8, flags);
	record->tgid = tgid;
	record->frames = frames;
	u32 size = frames * 8;
	if (size > sizeof(scratch->frames))
		return 0;
	bpf_probe_read_kernel(at.block + offset + sizeof(*record), size, scratch->frames);
	known->hash = hash;
	known->position = at.position;
	return at.position / 8;
}

// The kernel's and the user's stack of the current thread, by frame pointers in user mode.
static __always_inline void stacks(void *ctx, struct cpu_ring *ring, u32 cpu, u64 now,
				   enum context context, u32 skip, bool user, u32 *kernel_stack,
				   u32 *user_stack)
{
	u32 key = context;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &key);
	if (!scratch)
		return;
	long bytes = bpf_get_stack(ctx, scratch->frames, sizeof(scratch->frames), skip);
	*kernel_stack = define(ring, cpu, now, scratch, bytes, 0, 0);
	if (!user || !with_user_stacks)
		return;
	bytes = bpf_get_stack(ctx, scratch->frames, sizeof(scratch->frames), BPF_F_USER_STACK);
	*user_stack = define(ring, cpu, now, scratch, bytes, USER_STACK,
			     bpf_get_current_pid_tgid() >> 32);
}

// -------------------------------------------------------------------------------- the threads

static __always_inline struct task_slot *slot_of(u32 tid)
{
	u32 key = tid & (TASK_SLOTS - 1);
	return bpf_map_lookup_elem(&tasks, &key);
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

static __always_inline void note_priority(struct cpu_ring *ring, u32 cpu, u64 now,
					  struct task_slot *slot, u32 tid, s32 prio)
{
	struct place at;
	if (!reserve(&at, ring, cpu, now, sizeof(struct priority_record),
		     sizeof(struct priority_record)) ||
	    at.offset > BLOCK_BYTES - sizeof(struct priority_record))
		return;
	struct priority_record *record = (void *)(at.block + at.offset);
	record->word = LONG_WORD(at.delta_ns, PRIORITY, sizeof(*record) / 8, 0);
	record->tid = tid;
	record->prio = prio;
	slot->prio = prio;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 leaving = prev->pid, coming = next->pid;
	ring->switches++;

	// A switch to some threads of init reaches no program.
	if (ring->current != leaving) {
		struct place at;
		if (reserve(&at, ring, cpu, now, sizeof(struct repair_record),
			    sizeof(struct repair_record)) &&
		    at.offset <= BLOCK_BYTES - sizeof(struct repair_record)) {
			struct repair_record *record = (void *)(at.block + at.offset);
			record->word = LONG_WORD(at.delta_ns, REPAIR, sizeof(*record) / 8, 0);
			record->tid = leaving;
			record->unused = 0;
		}
		ring->repairs++;
	}

	u32 state = state_of(preempt, prev_state);
	if (leaving) {
		struct task_slot *slot = slot_of(leaving);
		if (slot) {
			slot->tid = leaving;
			slot->left_ns = state > PREEMPTED ? now : 0;
			slot->woken_ns = 0;
		}
	}
	ring->pending_ns = 0;
	if (coming) {
		struct task_slot *slot = slot_of(coming);
		if (slot) {
			s32 prio = next->prio;
			bool known = slot->tid == coming;
			if (known && slot->left_ns && slot->woken_ns > slot->left_ns &&
			    slot->woken_ns - slot->left_ns >= min_wait_ns)
				ring->pending_ns = slot->left_ns;
			if (!known) {
				slot->left_ns = 0;
				slot->woken_ns = 0;
				slot->tid = coming;
			}
			if (!known || slot->prio != prio)
				note_priority(ring, cpu, now, slot, coming, prio);
			slot->left_ns = 0;
		}
	}
	write_short(ring, cpu, now, SWITCH, (coming & 0x3fffff) | state << 22);
	ring->current = coming;
	leave(ring);
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_exit_of_schedule, bool is_switch)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = bpf_map_lookup_elem(&cpus, &cpu);
	if (!ring || !ring->pending_ns)
		return 0;
	ring->depth++;
	u64 left = ring->pending_ns;
	ring->pending_ns = 0;
	u64 now = bpf_ktime_get_ns();
	u32 kernel_stack = 0, user_stack = 0;
	stacks(ctx, ring, cpu, now, AT_EXIT, 0, true, &kernel_stack, &user_stack);
	struct place at;
	if (reserve(&at, ring, cpu, now, sizeof(struct wait_record), sizeof(struct wait_record)) &&
	    at.offset <= BLOCK_BYTES - sizeof(struct wait_record)) {
		struct wait_record *record = (void *)(at.block + at.offset);
		record->word = LONG_WORD(at.delta_ns, WAIT, sizeof(*record) / 8, 0);
		record->left_ns = left;
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
	}
	leave(ring);
	return 0;
}

// Where the program was called: interrupts have stacks of their own.
static __always_inline u32 source_of(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 stack = (u64)task->stack, at = (u64)ctx;
	return at - stack < 16384 ? FROM_THREAD : FROM_HARDIRQ;
}

static __always_inline int woken(void *ctx, struct task_struct *wakee, bool is_new)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 tid = wakee->pid;
	u32 source = is_new ? FROM_NEW_THREAD : source_of(ctx);
	ring->wakings++;
	write_short(ring, cpu, now, WAKING, (tid & 0x3fffff) | source << 22);
	struct task_slot *slot = slot_of(tid);
	bool was_long = is_new;
	if (slot && slot->tid == tid && slot->left_ns && !slot->woken_ns) {
		slot->woken_ns = now;
		was_long |= now - slot->left_ns >= min_wait_ns;
	}
	if (was_long) {
		u32 kernel_stack = 0, user_stack = 0;
		stacks(ctx, ring, cpu, now, AT_WAKING, 0, source != FROM_HARDIRQ, &kernel_stack,
		       &user_stack);
		struct place at;
		if (reserve(&at, ring, cpu, now, sizeof(struct waker_record),
			    sizeof(struct waker_record)) &&
		    at.offset <= BLOCK_BYTES - sizeof(struct waker_record)) {
			struct waker_record *record = (void *)(at.block + at.offset);
			record->word = LONG_WORD(at.delta_ns, WAKER, sizeof(*record) / 8, 0);
			record->kernel_stack = kernel_stack;
			record->user_stack = user_stack;
		}
	}
	leave(ring);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *wakee)
{
	return woken(ctx, wakee, false);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_first_wake_up, struct task_struct *wakee)
{
	return woken(ctx, wakee, true);
}

SEC("perf_event")
int on_sample(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 thread = bpf_get_current_pid_tgid();
	if (!(u32)thread)
		return 0;
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 kernel_stack = 0, user_stack = 0;
	stacks(ctx, ring, cpu, now, AT_SAMPLE, 0, true, &kernel_stack, &user_stack);
	struct place at;
	if (reserve(&at, ring, cpu, now, sizeof(struct sample_record),
		    sizeof(struct sample_record)) &&
	    at.offset <= BLOCK_BYTES - sizeof(struct sample_record)) {
		struct sample_record *record = (void *)(at.block + at.offset);
		record->word = LONG_WORD(at.delta_ns, SAMPLE, sizeof(*record) / 8, 0);
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
	}
	leave(ring);
	return 0;
}
