// The threads that are asleep when the recorder asks: at a save.
#pragma once

#include "descriptors.h"
#include "kernel.h"
#include "locks.h"
#include "ring.h"
#include "stacks.h"
#include "write.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define SLEEPER_FRAMES 63
#define MAX_POLLING 4096

// A thread that is asleep when the recorder asks.
struct sleeper {
	u32 tid;
	u32 tgid;
	u64 left_ns; // when it left its CPU; or about when it came on it, see `is_estimate`
	u32 owner; // of the lock that it waits for
	u32 called; // it is in a system call
	u64 ip, sp, bp; // in user mode; 0 for a kernel thread, and for 32-bit code
	u64 syscall;
	u64 arguments[3];
	u64 kernel_lock;
	u64 thread_id; // pthread_self()
	u32 first; // of `frames`
	u32 count;
	u32 described; // `descriptor` is there
	u16 state;
	u16 is_estimate; // no program saw it leave
	struct descriptor descriptor;
	u64 frames[SLEEPER_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

// About when a thread came on a CPU for the last time. The scheduler's clock is not the ring's; that
// of the thread that asks, which came on just now, shows by how much they differ.
static __always_inline u64 last_arrival(struct task_struct *task)
{
	struct task_struct *asker = bpf_get_current_task_btf();
	if (!bpf_core_field_exists(task->sched_info.last_arrival))
		return 0;
	u64 ago = asker->sched_info.last_arrival - task->sched_info.last_arrival;
	u64 now = bpf_ktime_get_ns();
	return (s64)ago > 0 && ago < now ? now - ago : 0;
}

/* Its field is an int, from Linux 7.3 on a byte. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	u32 on_cpu = 0;
	u32 bytes = bpf_core_field_size(task->on_cpu);
	bpf_probe_read_kernel(&on_cpu, bytes < sizeof(on_cpu) ? bytes : sizeof(on_cpu), &task->on_cpu);
	return on_cpu;
}

SEC("iter/task")
int on_each_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 key = 0;
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &key);
	if (!task || !sleeper || !task->__state || is_on_cpu(task))
		return 0;
	u32 state = state_of(false, task->__state);
	struct task_slot *slot = slot_of(task->pid);
	u64 left = slot ? blocked_since(slot) : 0;
	if (state == DEAD || (slot && !left))
		return 0;
	__builtin_memset(sleeper, 0, __builtin_offsetof(struct sleeper, frames));
	sleeper->tid = task->pid;
	sleeper->tgid = task->tgid;
	sleeper->state = state;
	if (slot) {
		sleeper->left_ns = left;
		sleeper->owner = slot->owner;
		sleeper->kernel_lock = slot->kernel_lock;
	} else {
		sleeper->left_ns = last_arrival(task);
		sleeper->is_estimate = 1;
	}
	if (!(task->flags & PF_KTHREAD) && is_64_bit(task)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		sleeper->called = in_syscall(regs);
		sleeper->ip = regs->ip;
		sleeper->sp = regs->sp;
		sleeper->bp = regs->bp;
		sleeper->thread_id = task->thread.fsbase;
		sleeper->syscall = regs->orig_ax;
		sleeper->arguments[0] = regs->di;
		sleeper->arguments[1] = regs->si;
		sleeper->arguments[2] = regs->dx;
		if (sleeper->called && has_descriptor(regs->orig_ax))
			sleeper->described = describe(&sleeper->descriptor, task, regs->di);
	}
	long bytes = bpf_get_task_stack(task, sleeper->frames, sizeof(sleeper->frames), 0);
	sleeper->count = bytes > 0 ? (u32)bytes / 8 : 0;
	bpf_seq_write(ctx->meta->seq, sleeper, sizeof(*sleeper));
	return 0;
}

// A poll or select of a sleeper. The recorder has read from its memory what it is about.
struct polling {
	u64 sp; // in user mode
	u64 one; // as `polled()` returns
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_POLLING);
	__type(key, u32);
	__type(value, struct polling);
} pollers SEC(".maps");

struct polled_sleeper {
	u32 tid;
	u32 unused;
	struct descriptor descriptor;
};

SEC("iter/task")
int on_each_poller(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 tid = task ? task->pid : 0;
	struct polling *polling = bpf_map_lookup_elem(&pollers, &tid);
	if (!task || !polling || task->flags & PF_KTHREAD)
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	bool is_same = regs->sp == polling->sp && in_syscall(regs) &&
		       (IS_POLL(regs->orig_ax) || IS_SELECT(regs->orig_ax));
	struct polled_sleeper sleeper = { tid };
	if (!is_same || !describe(&sleeper.descriptor, task, (u32)polling->one))
		return 0;
	sleeper.descriptor.polled = polling->one >> 32;
	bpf_seq_write(ctx->meta->seq, &sleeper, sizeof(sleeper));
	return 0;
}
