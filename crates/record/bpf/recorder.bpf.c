// The kernel's part of the recorder: writes every switch and every wake-up, and the stacks of the
// waits that were long, to a ring per CPU. The format of the ring is in ring.h.
//
// Contexts: `sched_switch` runs with the run-queue lock held, so it only writes numbers. A stack is
// taken at `sched_exit`, when the thread that waited is back on a CPU with its stack as it was, and
// at the wake-up that ended the wait. Samples interrupt both.

#include "descriptors.h"
#include "event_loops.h"
#include "facts.h"
#include "file_locks.h"
#include "kernel.h"
#include "locks.h"
#include "python.h"
#include "ring.h"
#include "sleepers.h"
#include "stacks.h"
#include "watch.h"
#include "write.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile u32 with_watches = 0; // set before loading

// -------------------------------------------------------------------------------- the threads

// Where `current` entered the kernel, and `why`. Two waits of a thread that agree in it have the
// same stack, as far as has been seen (docs/recording.md). How deep in the kernel's stack they are
// says nothing: the kernel shifts that at random at each system call.
static __always_inline u32 place_of(u64 why, struct task_struct *task, u64 python)
{
	u64 hash = why * 0x9e3779b97f4a7c15ull;
	if (!(task->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		hash = (hash ^ regs->ip) * 0xff51afd7ed558ccdull;
		hash = (hash ^ regs->sp) * 0xff51afd7ed558ccdull;
		hash = (hash ^ regs->orig_ax) * 0xff51afd7ed558ccdull;
		if (python)
			hash = (hash ^ place_in_script(task->tgid, forked_from(task), python)) *
			       0xff51afd7ed558ccdull;
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

// The number of a place, from that of the place before.
static __always_inline u32 number_of(u32 *places, u32 place, u32 before, u32 number)
{
	return place == before ? number : find_place(places, place);
}

// Remembers that a stack was taken at a place. Returns its number.
static __always_inline u32 remember_place(u32 *places, u8 *next, u32 place)
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

static __always_inline struct watched *watched_here(void)
{
	struct shared *shared = the_shared();
	return shared ? &shared->watched : 0;
}

// 66 µs.
#define BACK_PERIOD_SHIFT 16
#define BACK_PERIOD(NS) ((u32)((NS) >> BACK_PERIOD_SHIFT))

// Since when a thread is back from its last wait for events, rounded down; 0 if it never was, or not
// in the last 39 hours.
static __always_inline u64 back_ns(struct task_slot *slot, u64 now)
{
	u32 back = slot->back;
	s32 ago = BACK_PERIOD(now) - back;
	// Another CPU may have set it a little later than `now`.
	return back && ago >= 0 ? ((now >> BACK_PERIOD_SHIFT) - ago) << BACK_PERIOD_SHIFT : 0;
}

// Priorities below this are those of real-time classes, which have no such quota.
#define MIN_FAIR_PRIO 100
#define USUAL_PRIO 120

// Whether a thread that is runnable leaves because the quota of its control group is used up.
static __always_inline bool is_throttled(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	// Whole run queues were throttled then.
	if (bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
	return false;
}

// At a place whose stack is known, another stack is due after this many times as much blocked time.
#define KNOWN_PLACE_WAITS 64

// More blocked time without a stack is not counted.
#define MAX_BLOCKED_US 1000000000ull

static __always_inline u32 add_blocked(u32 us, u64 ns)
{
	u64 sum = us + ns / 1000;
	return sum > MAX_BLOCKED_US ? MAX_BLOCKED_US : sum;
}

// Whether the stacks of a wait are due, with which its thread was blocked for `us` since its last
// stack. `known`: a stack was taken at the same place before.
static __always_inline bool is_due(u32 us, bool known, u64 now)
{
	u64 blocked = us * 1000ull;
	return blocked >= min_wait_ns &&
	       blocked >= wanted_wait_ns(now) * (known && !compare_stacks ? KNOWN_PLACE_WAITS : 1);
}

// 17 ms: the ring goes on for much longer before it overwrites a stack that is that much older.
#define PLACES_PERIOD(NS) ((u32)((NS) >> 24))

// The ring overwrites the stacks of places, so they are taken again before it does.
static __always_inline void forget_old_places(struct task_slot *slot, u64 now)
{
	struct shared *shared = the_shared();
	if (!shared || (s32)(slot->places_since - PLACES_PERIOD(shared->places_from)) >= 0)
		return;
	__builtin_memset(slot->waits, 0, sizeof(slot->waits));
	__builtin_memset(slot->wakers, 0, sizeof(slot->wakers));
	slot->known_place = 0;
	slot->known_waker = 0;
	slot->places_since = PLACES_PERIOD(now);
}

// Notes where a thread waits. Returns the number of the place; 0 if no stack was taken there. *Why a
// function*: see `find_slot`.
__noinline u32 note_place(struct task_slot *slot, u32 place, u64 now)
{
	if (!slot)
		return 0;
	forget_old_places(slot, now);
	u32 number = number_of(slot->waits, place, slot->place, slot->known_place);
	slot->place = place;
	slot->known_place = number;
	return number;
}

// Likewise, where it is woken from.
__noinline u32 note_waker(struct task_slot *slot, u32 place, u64 now)
{
	if (!slot)
		return 0;
	forget_old_places(slot, now);
	u32 number = number_of(slot->wakers, place, slot->waker_place, slot->known_waker);
	slot->waker_place = place;
	slot->known_waker = number;
	return number;
}

#define PRIO_PERIOD(NOW) ((u16)((NOW) >> 28))

// The ring overwrites what was written once, so that unusual ones are written again and again.
static __always_inline void note_priority(struct cpu_ring *ring, u32 cpu, u64 now,
					  struct task_slot *slot, u32 tid, s32 prio)
{
	struct priority_record *record =
		NEW_RECORD(ring, cpu, now, PRIORITY, PRIO_FLAGS(slot->prio), priority_record);
	if (!record)
		return;
	record->tid = tid;
	record->prio = prio;
	slot->prio = prio;
	slot->prio_period = PRIO_PERIOD(now);
}

// Another thread is on the CPU than the last switch said: a switch to or from some threads of init
// reaches no program.
static __always_inline void repair(struct cpu_ring *ring, u32 cpu, u64 now, u32 current)
{
	struct repair_record *record = NEW_RECORD(ring, cpu, now, REPAIR, 0, repair_record);
	if (record) {
		record->tid = current;
		record->unused = 0;
	}
	ring->current = current;
	ring->python = 0;
}

// A thread comes on: whether its wait, or the time in which it was ready to run, is to be written with
// its stacks.
static __always_inline void arrive(struct cpu_ring *ring, u32 cpu, u64 now, struct task_struct *next)
{
	ring->pending_ns = 0;
	u32 coming = next->pid;
	struct task_slot *slot = coming ? slot_in(find_slot(coming, true)) : 0;
	ring->python = slot ? slot->python : 0;
	if (slot) {
		s32 prio = next->prio;
		if (slot->prio != prio ||
		    (prio != USUAL_PRIO && slot->prio_period != PRIO_PERIOD(now)))
			note_priority(ring, cpu, now, slot, coming, prio);
		u64 since = slot->since_ns;
		if (since && slot->is_blocked) {
			u64 blocked = slot->woken_us ? slot->woken_us * 1000ull : now - since;
			slot->blocked_us = add_blocked(slot->blocked_us, blocked);
			u32 known = slot->known_place;
			ring->pending_due = is_due(slot->blocked_us, known, now);
			ring->pending_known = known;
			ring->pending_blocked_ns = blocked;
			if (ring->pending_due ||
			    (blocked >= min_wait_ns &&
			     (!known || blocked >= LONG_WAITS * min_wait_ns ||
			      slot->kernel_lock || is_lock_wait(next))))
				ring->pending_ns = since;
			if (with_watches) {
				watch_coming(watched_here(), next, since, slot->kind, now);
				if (slot->kind & FOR_EVENTS)
					slot->back = BACK_PERIOD(now);
			}
		} else if (since && now - since >= LONG_WAITS * min_wait_ns) {
			// Where it was when it lost its CPU for long: perhaps it holds a lock there.
			ring->pending_due = now - since >= wanted_wait_ns(now);
			ring->pending_known = 0;
			ring->pending_blocked_ns = 0;
			ring->pending_ns = since;
		}
		slot->since_ns = 0;
		slot->is_blocked = 0;
	}
}

// What the thread waited for. It is back, so that it may have been closed meanwhile.
static __always_inline void write_descriptor(struct cpu_ring *ring, u32 cpu, u64 now,
					     struct task_struct *task, struct pt_regs *regs,
					     bool is_current)
{
	struct descriptor descriptor;
	if (!describe_awaited(&descriptor, task, regs, is_current))
		return;
	struct descriptor_record *record =
		NEW_RECORD(ring, cpu, now, DESCRIPTOR, 0, descriptor_record);
	if (record)
		record->of = descriptor;
}

// ------------------------------------------------------------------------------------- programs

static __always_inline int switched(void *ctx, bool preempt, struct task_struct *prev,
				    struct task_struct *next, u32 prev_state)
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

	u32 known_place = 0;
	u32 state = state_of(preempt, prev_state);
	if (state <= PREEMPTED && prev->prio >= MIN_FAIR_PRIO && is_throttled(prev))
		state = THROTTLED;
	struct task_slot *slot = leaving ? slot_in(find_slot(leaving, state != DEAD)) : 0;
	if (slot && state == DEAD) {
		slot->tid = 0;
	} else if (slot) {
		bool is_blocked = state > PREEMPTED && state != THROTTLED;
		slot->is_blocked = is_blocked;
		slot->since_ns = now;
		slot->woken_us = 0;
		slot->owner = 0;
		if (is_blocked) {
			u64 context = address_of(ring, ctx);
			u32 place = place_of(caller_of_schedule(context), prev, slot->python);
			known_place = note_place(slot, place, now);
			slot->context = context - (u64)prev->stack;
			if (!(prev->flags & PF_KTHREAD))
				slot->owner = lock_owner((void *)bpf_task_pt_regs(prev), false);
			if (with_watches) {
				slot->kind = kind_of_wait(prev);
				watch_leaving(watched_here(), prev, back_ns(slot, now), slot->kind, now);
			}
		}
	}
	arrive(ring, cpu, now, next);
	write_short(ring, cpu, now, SWITCH,
		    (coming & 0x3fffff) | state << 22 | known_place << SWITCH_PLACE_SHIFT);
	ring->current = coming;
	leave(ring);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return switched(ctx, preempt, prev, next, prev_state);
}

// Before Linux 5.18, the state is not passed. Until the thread is woken it is in the task.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_before_5_18, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	return switched(ctx, preempt, prev, next, prev->__state);
}

// Writes why `task`, which just came on, had waited, with its stacks.
static __always_inline int came_on(void *ctx, struct task_struct *task, bool is_current)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = bpf_map_lookup_elem(&cpus, &cpu);
	bool unseen = ring && is_current && ring->current != (u32)task->pid;
	if (!ring || (!ring->pending_ns && !unseen))
		return 0;
	ring->depth++;
	u64 now = bpf_ktime_get_ns();
	if (unseen) {
		repair(ring, cpu, now, task->pid);
		arrive(ring, cpu, now, task);
		if (!ring->pending_ns) {
			leave(ring);
			return 0;
		}
	}
	u64 left = ring->pending_ns;
	ring->pending_ns = 0;
	struct task_slot *slot = slot_of(task->pid);
	u32 kernel_stack = 0, user_stack = 0, flags = 0;
	bool was_blocked = slot && ring->pending_blocked_ns;
	if (ring->pending_due) {
		if (is_current)
			stacks(ctx, ring, cpu, now, AT_EXIT,
			       was_blocked ? (u64)task->stack + slot->context : 0,
			       was_blocked ? slot->place : 0, &kernel_stack, &user_stack);
		else
			kernel_stack = stack_of_next(cpu, now, task);
		spend(now);
		if (was_blocked)
			slot->blocked_us = 0;
		// Without the caller of schedule(), places of one stack cannot be told apart.
		if (was_blocked && is_current) {
			u32 number = remember_place(slot->waits, &slot->next_wait, slot->place);
			slot->known_place = number;
			flags = FLAGS_OF_PLACE(number);
		}
	} else if (!ring->pending_known) {
		flags = STACKS_OVER_BUDGET;
	}
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	bool called = !(task->flags & PF_KTHREAD) && in_syscall(regs);
	u32 owner = slot ? slot->owner : 0;
	// At the switch itself, the memory is still that of the thread that leaves.
	if (!owner && called && was_blocked && is_current) {
		// When the wait began, the owner may just have been letting go, and then be back first.
		owner = lock_owner(regs, true);
		flags |= owner ? OWNER_AT_RETURN : 0;
	}
	struct wait_record *record = NEW_RECORD(ring, cpu, now, WAIT, flags, wait_record);
	if (record) {
		record->left_ns = left;
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
		record->syscall = called ? (s32)regs->orig_ax : -1;
		record->owner = owner;
		record->arguments[0] = called ? regs->di : 0;
		record->arguments[1] = called ? regs->si : 0;
		record->kernel_lock = slot ? slot->kernel_lock : 0;
		bool described = ring->pending_due ||
				 ring->pending_blocked_ns >= LONG_WAITS * min_wait_ns;
		if (called && was_blocked && described)
			write_descriptor(ring, cpu, now, task, regs, is_current);
	}
	leave(ring);
	return 0;
}

// Of these three, the first that the kernel allows is attached: `src/bpf/hook.rs`.
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_exit_of_schedule)
{
	return came_on(ctx, bpf_get_current_task_btf(), true);
}

// At finish_task_switch(), which the thread that came on calls first.
SEC("kprobe")
int on_finished_switch(void *ctx)
{
	return came_on(ctx, bpf_get_current_task_btf(), true);
}

// At the switch itself, after `on_switch`.
SEC("tp_btf/sched_switch")
int BPF_PROG(on_next, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return came_on(ctx, next, false);
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
	bool own_stack = is_on_own_stack(ring, ctx, task);
	bool interrupt = !own_stack || was_interrupted(task);
	u32 current = task->pid;
	if (ring->current != current)
		repair(ring, cpu, now, current);
	ring->wakings++;
	struct task_slot *slot = slot_of(tid);
	u32 place = 0, known_place = 0;
	bool due = is_new && wanted_wait_ns(now) <= LONG_WAITS * min_wait_ns;
	if (slot && blocked_since(slot) && !slot->woken_us) {
		u64 blocked = now - slot->since_ns;
		u32 in_all = add_blocked(slot->waker_blocked_us, blocked);
		slot->woken_us = add_blocked(0, blocked) ?: 1;
		place = place_of(current, task, ring->python);
		known_place = note_waker(slot, place, now);
		due |= is_due(in_all, known_place, now);
		slot->waker_blocked_us = due ? 0 : in_all;
	}
	u32 kernel_stack = 0, user_stack = 0, flags = 0;
	if (due) {
		bool by_interrupt = stacks(ctx, ring, cpu, now, AT_WAKING, 0, interrupt ? 0 : place,
					   &kernel_stack, &user_stack);
		flags = !own_stack && !by_interrupt ? BY_THREAD : 0;
		// An exception is no interrupt.
		interrupt = own_stack ? by_interrupt : true;
		spend(now);
		// An interrupt can come anywhere.
		if (slot && place && !by_interrupt) {
			u32 number = remember_place(slot->wakers, &slot->next_waker, place);
			slot->known_waker = number;
			flags |= FLAGS_OF_PLACE(number);
		}
	}
	u32 source = is_new ? FROM_NEW_THREAD : interrupt ? FROM_INTERRUPT : FROM_THREAD;
	write_short(ring, cpu, now, WAKING,
		    (tid & 0x3fffff) | source << 22 | known_place << WAKING_PLACE_SHIFT);
	if (!due) {
		leave(ring);
		return 0;
	}
	struct waker_record *record = NEW_RECORD(ring, cpu, now, WAKER, flags, waker_record);
	if (record) {
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
		record->futex = interrupt || task->flags & PF_KTHREAD
					? 0
					: woken_futex((void *)bpf_task_pt_regs(task));
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
	if (slot)
		slot->kernel_lock = (u64)lock;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_end_of_contention, void *lock, int result)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct task_slot *slot = tid ? slot_of(tid) : 0;
	// While it waits for one, it may have spun for another, or an interrupt may have.
	if (slot && slot->kernel_lock == (u64)lock)
		slot->kernel_lock = 0;
	return 0;
}

// Another program has other mappings. They are read if the old ones were wanted, or once a stack is
// taken: a process that never waits long costs nothing.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	u32 tgid = task->tgid;
	// It has another event loop, too.
	struct task_slot *slot = with_watches ? slot_of(task->pid) : 0;
	if (slot)
		slot->back = 0;
	bpf_map_delete_elem(&pythons, &tgid);
	bpf_map_delete_elem(&javas, &tgid);
	if (bpf_map_delete_elem(&processes, &tgid))
		return 0;
	want_mappings(tgid, PROCESS_UNKNOWN, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	u32 tgid = task->tgid;
	if (task->pid != tgid)
		return 0;
	bpf_map_delete_elem(&pythons, &tgid);
	bpf_map_delete_elem(&javas, &tgid);
	if (bpf_map_delete_elem(&processes, &tgid))
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
	stacks(ctx, ring, cpu, now, AT_SAMPLE, 0, 0, &kernel_stack, &user_stack);
	struct sample_record *record = NEW_RECORD(ring, cpu, now, SAMPLE, 0, sample_record);
	if (record) {
		record->kernel_stack = kernel_stack;
		record->user_stack = user_stack;
	}
	leave(ring);
	return 0;
}

// ---------------------------------------------------------------------------------------- watch

SEC("iter/task")
int on_each_watched_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_slot *slot = task ? slot_of(task->pid) : 0;
	if (!slot)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct lately lately = { blocked_since(slot), back_ns(slot, now), slot->kind };
	list_unended(watched_here(), ctx->meta->seq, task, &lately, now);
	return 0;
}
