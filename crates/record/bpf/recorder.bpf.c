// The kernel's part of the recorder: writes every switch and every wake-up, and the stacks of the
// waits that were long, to a ring per CPU. The format of the ring is in ring.h.
//
// Contexts: `sched_switch` runs with the run-queue lock held, so it only writes numbers. A stack is
// taken at `sched_exit`, when the thread that waited is back on a CPU with its stack as it was, and
// at the wake-up that ended the wait. Samples interrupt both.

#include "kernel.h"
#include "locks.h"
#include "ring.h"
#include "stacks.h"
#include "write.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

ARRAY(tasks, struct task_slot, TASK_SLOTS, BPF_F_MMAPABLE);

// -------------------------------------------------------------------------------- the threads

static __always_inline struct task_slot *slot_of(u32 tid)
{
	u32 key = tid & (TASK_SLOTS - 1);
	return bpf_map_lookup_elem(&tasks, &key);
}

// Where `current` entered the kernel, and `why`. Two waits of a thread that agree in it have the
// same stack, as far as has been seen (docs/recording.md). How deep in the kernel's stack they are
// says nothing: the kernel shifts that at random at each system call.
static __always_inline u32 place_of(u64 why, struct task_struct *task)
{
	u64 hash = why * 0x9e3779b97f4a7c15ull;
	if (!(task->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		hash = (hash ^ regs->ip) * 0xff51afd7ed558ccdull;
		hash = (hash ^ regs->sp) * 0xff51afd7ed558ccdull;
		hash = (hash ^ regs->orig_ax) * 0xff51afd7ed558ccdull;
	}
	return (u32)(hash >> 32) | 1;
}

// The number of a place, from 1; 0 if no stack was taken there.
static __always_inline u32 find_place(u32 *places, u32 place)
{
	u32 number = 0;
	for (u32 i = 0; i < PLACES; i++)
		number = places[i] == place ? i + 1 : number;
	return number;
}

// Remembers that a stack was taken at a place. Returns its number.
static __always_inline u32 remember_place(u32 *places, u32 *next, u32 place)
{
	u32 number = find_place(places, place);
	if (number)
		return number;
	u32 index = *next;
	if (index >= PLACES)
		index = 0;
	places[index] = place;
	*next = index + 1;
	return index + 1;
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

// Makes the slot that of another thread.
static __always_inline void forget(struct task_slot *slot, u32 tid)
{
	__builtin_memset(slot, 0, sizeof(*slot));
	slot->tid = tid;
	slot->prio = -1;
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

// Another thread is on the CPU than the last switch said: a switch to or from some threads of init
// reaches no program.
static __always_inline void repair(struct cpu_ring *ring, u32 cpu, u64 now, u32 current)
{
	struct place at;
	if (reserve(&at, ring, cpu, now, sizeof(struct repair_record),
		    sizeof(struct repair_record)) &&
	    at.offset <= BLOCK_BYTES - sizeof(struct repair_record)) {
		struct repair_record *record = (void *)(at.block + at.offset);
		record->word = LONG_WORD(at.delta_ns, REPAIR, sizeof(*record) / 8, 0);
		record->tid = current;
		record->unused = 0;
	}
	ring->current = current;
	ring->repairs++;
}

// A thread that is not blocked, but waits for a CPU, has a stack if that takes this many times as
// long as a wait must.
#define MIN_QUEUED_WAITS 10

// ------------------------------------------------------------------------------------- programs

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

	if (ring->current != leaving)
		repair(ring, cpu, now, leaving);

	u32 state = state_of(preempt, prev_state), known_place = 0;
	struct task_slot *slot = leaving ? slot_of(leaving) : 0;
	if (slot) {
		if (slot->tid != leaving)
			forget(slot, leaving);
		slot->left_ns = 0;
		slot->woken_ns = 0;
		slot->queued_ns = now;
		if (state > PREEMPTED) {
			slot->queued_ns = 0;
			slot->left_ns = now;
			slot->context = address_of(ring, ctx);
			slot->place = place_of(caller_of_schedule(slot->context), prev);
			known_place = find_place(slot->waits, slot->place);
			slot->owner = prev->flags & PF_KTHREAD
					      ? 0
					      : lock_owner((void *)bpf_task_pt_regs(prev));
		}
	}
	ring->pending_ns = 0;
	slot = coming ? slot_of(coming) : 0;
	if (slot) {
		s32 prio = next->prio;
		if (slot->tid != coming)
			forget(slot, coming);
		if (slot->prio != prio)
			note_priority(ring, cpu, now, slot, coming, prio);
		u64 left = slot->left_ns;
		if (left) {
			u64 woken = slot->woken_ns;
			slot->blocked_ns += (woken > left ? woken : now) - left;
			if (slot->blocked_ns >= min_wait_ns)
				ring->pending_ns = left;
		} else if (slot->queued_ns && now - slot->queued_ns >= MIN_QUEUED_WAITS * min_wait_ns) {
			// Where it was when it lost its CPU for long: perhaps it holds a lock there.
			ring->pending_ns = slot->queued_ns;
		}
		slot->left_ns = 0;
		slot->queued_ns = 0;
	}
	write_short(ring, cpu, now, SWITCH,
		    (coming & 0x3fffff) | state << 22 | known_place << SWITCH_PLACE_SHIFT);
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
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_slot *slot = slot_of(task->pid);
	u64 now = bpf_ktime_get_ns();
	u32 kernel_stack = 0, user_stack = 0, flags = STACKS_OVER_BUDGET;
	u64 wanted = wanted_wait_ns(now);
	bool was_blocked = slot && slot->blocked_ns >= min_wait_ns;
	if (!was_blocked ? now - left >= wanted : slot->blocked_ns >= wanted) {
		flags = 0;
		stacks(ctx, ring, cpu, now, AT_EXIT, slot ? slot->context : 0, &kernel_stack, &user_stack);
		spend(ring, now);
		if (was_blocked) {
			slot->blocked_ns = 0;
			flags = FLAGS_OF_PLACE(
				remember_place(slot->waits, &slot->next_wait, slot->place));
		}
	} else {
		ring->over_budget++;
	}
	struct place at;
	if (reserve(&at, ring, cpu, now, sizeof(struct wait_record), sizeof(struct wait_record)) &&
	    at.offset <= BLOCK_BYTES - sizeof(struct wait_record)) {
		struct wait_record *record = (void *)(at.block + at.offset);
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		bool called = !(task->flags & PF_KTHREAD) && in_syscall(regs);
		record->word = LONG_WORD(at.delta_ns, WAIT, sizeof(*record) / 8, flags);
		record->left_ns = left;
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
		record->syscall = called ? (s32)regs->orig_ax : -1;
		record->owner = slot ? slot->owner : 0;
		record->arguments[0] = called ? regs->di : 0;
		record->arguments[1] = called ? regs->si : 0;
		record->kernel_lock = slot ? slot->kernel_lock : 0;
	}
	leave(ring);
	return 0;
}

static __always_inline int woken(void *ctx, struct task_struct *wakee, bool is_new)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 tid = wakee->pid;
	struct task_struct *task = bpf_get_current_task_btf();
	// An interrupt has a stack of its own.
	bool interrupt = address_of(ring, ctx) - (u64)task->stack >= KERNEL_STACK_BYTES;
	u32 current = task->pid;
	if (ring->current != current)
		repair(ring, cpu, now, current);
	u32 source = is_new ? FROM_NEW_THREAD : interrupt ? FROM_INTERRUPT : FROM_THREAD;
	ring->wakings++;
	struct task_slot *slot = slot_of(tid);
	u32 place = 0, known_place = 0;
	u64 blocked = 0;
	if (slot && slot->tid == tid && slot->left_ns && !slot->woken_ns) {
		slot->woken_ns = now;
		blocked = slot->blocked_ns + (now - slot->left_ns);
		place = place_of(task->pid, task);
		known_place = find_place(slot->wakers, place);
	}
	write_short(ring, cpu, now, WAKING,
		    (tid & 0x3fffff) | source << 22 | known_place << WAKING_PLACE_SHIFT);
	if (!is_new && blocked < min_wait_ns) {
		leave(ring);
		return 0;
	}
	u32 kernel_stack = 0, user_stack = 0, flags = STACKS_OVER_BUDGET;
	u64 wanted = wanted_wait_ns(now);
	if (blocked >= wanted || (is_new && wanted <= MIN_QUEUED_WAITS * min_wait_ns)) {
		flags = 0;
		bool by_interrupt = stacks(ctx, ring, cpu, now, AT_WAKING, 0, &kernel_stack,
					   &user_stack);
		if (interrupt && !by_interrupt)
			flags = BY_THREAD;
		spend(ring, now);
		// An interrupt can come anywhere.
		if (slot && place && !by_interrupt)
			flags |= FLAGS_OF_PLACE(
				remember_place(slot->wakers, &slot->next_waker, place));
	} else {
		ring->over_budget++;
	}
	struct place at;
	if (reserve(&at, ring, cpu, now, sizeof(struct waker_record), sizeof(struct waker_record)) &&
	    at.offset <= BLOCK_BYTES - sizeof(struct waker_record)) {
		struct waker_record *record = (void *)(at.block + at.offset);
		record->word = LONG_WORD(at.delta_ns, WAKER, sizeof(*record) / 8, flags);
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
		record->futex = 0;
		if (!(task->flags & PF_KTHREAD) && user_stack) {
			struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
			if (regs->orig_ax == SYS_FUTEX && in_syscall(regs))
				record->futex = regs->di;
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

#define LCB_F_SPIN 1

// A thread that waits for a lock in the kernel, and does not only spin.
SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention, void *lock, unsigned int flags)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct task_slot *slot = tid && !(flags & LCB_F_SPIN) ? slot_of(tid) : 0;
	if (slot && slot->tid == tid)
		slot->kernel_lock = (u64)lock;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_end_of_contention, void *lock, int result)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct task_slot *slot = tid ? slot_of(tid) : 0;
	if (slot && slot->tid == tid)
		slot->kernel_lock = 0;
	return 0;
}

// Another program has other mappings.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	u32 tgid = task->tgid;
	bpf_map_delete_elem(&processes, &tgid);
	want_mappings(tgid, PROCESS_UNKNOWN, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	u32 tgid = task->tgid;
	if (task->pid != tgid || bpf_map_delete_elem(&processes, &tgid))
		return 0;
	struct hint hint = { tgid, PROCESS_GONE };
	bpf_ringbuf_output(&hints, &hint, sizeof(hint), 0);
	return 0;
}

SEC("perf_event")
int on_sample(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 current = bpf_get_current_pid_tgid();
	if (!current)
		return 0;
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (ring->current != current)
		repair(ring, cpu, now, current);
	u32 kernel_stack = 0, user_stack = 0;
	stacks(ctx, ring, cpu, now, AT_SAMPLE, 0, &kernel_stack, &user_stack);
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

// ------------------------------------------------------------------------------------- sleepers

#define SLEEPER_FRAMES 63

// A thread that is asleep when the recorder asks.
struct sleeper {
	u32 tid;
	u32 tgid;
	u64 left_ns; // when it left its CPU
	u32 owner; // of the lock that it waits for
	u32 called; // it is in a system call
	u64 ip, sp, bp; // in user mode; 0 for a kernel thread
	u64 syscall;
	u64 arguments[2];
	u64 kernel_lock;
	u32 first; // of `frames`
	u32 count;
	u64 frames[SLEEPER_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

SEC("iter/task")
int on_each_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 key = 0;
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &key);
	if (!task || !sleeper || !task->__state)
		return 0;
	struct task_slot *slot = slot_of(task->pid);
	if (!slot || slot->tid != task->pid || !slot->left_ns)
		return 0;
	__builtin_memset(sleeper, 0, __builtin_offsetof(struct sleeper, frames));
	sleeper->tid = task->pid;
	sleeper->tgid = task->tgid;
	sleeper->left_ns = slot->left_ns;
	sleeper->owner = slot->owner;
	sleeper->kernel_lock = slot->kernel_lock;
	if (!(task->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		sleeper->called = in_syscall(regs);
		sleeper->ip = regs->ip;
		sleeper->sp = regs->sp;
		sleeper->bp = regs->bp;
		sleeper->syscall = regs->orig_ax;
		sleeper->arguments[0] = regs->di;
		sleeper->arguments[1] = regs->si;
	}
	long bytes = bpf_get_task_stack(task, sleeper->frames, sizeof(sleeper->frames), 0);
	sleeper->count = bytes > 0 ? (u32)bytes / 8 : 0;
	bpf_seq_write(ctx->meta->seq, sleeper, sizeof(*sleeper));
	return 0;
}
