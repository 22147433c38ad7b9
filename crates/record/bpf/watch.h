// Compares the waits of some threads with thresholds, for the always-on recorder, and writes a record
// for each that is longer. Where what a thread did is kept is up to who includes this.
//
// Whether a thread is watched is only looked at once it has waited for long.
#pragma once

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_WATCHES 16
#define MAX_GROUP_DEPTH 8
// A watch writes at most one record in so much time; the others are counted.
#define MIN_BETWEEN_HITS_NS 100000000ull

// What a watch is about. These and the following types are also in src/bpf/watcher.rs.
#define LOOPS 0x01 // event loops that stay away, not waits
#define ALL_THREADS 0x02
#define IDLE_WAITS 0x04
#define ABOUT_THREAD 0x10
#define ABOUT_PROCESS 0x20
#define ABOUT_PID 0x40
#define ABOUT_GROUP 0x80
#define ABOUT_USER 0x100
#define ABOUT_ANYONE 0x200

struct watch {
	u64 threshold_ns;
	u64 group;
	u32 user, pid;
	u32 flags, unused;
	u64 name[2]; // 16 letters
	u64 last_ns;
	u64 held; // hits without a record
};

// What is watched now.
struct watched {
	u64 shortest_wait_ns; // the lowest threshold of watches about waits
	u64 shortest_away_ns; // and of those about event loops
	u32 count; // of the watches
	u32 set; // which set of watches this is
};

struct hit {
	u32 watch, tid, pid;
	u32 set; // of watches
	u64 from_ns, to_ns, held;
};

ARRAY(watches, struct watch, MAX_WATCHES, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} hits SEC(".maps");

// What a thread waits for.
#define FOR_EVENTS 1
#define IDLY 2

// System calls of x86-64 in which a thread waits for events, for work, or for a set time.
static __always_inline u32 kind_of_wait(struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		return 0;
	switch (((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax) {
	case 7: // poll
	case 23: // select
	case 232: // epoll_wait
	case 270: // pselect6
	case 271: // ppoll
	case 281: // epoll_pwait
	case 426: // io_uring_enter
	case 441: // epoll_pwait2
		return FOR_EVENTS | IDLY;
	case 34: // pause
	case 35: // nanosleep
	case 43: // accept
	case 61: // wait4
	case 128: // rt_sigtimedwait
	case 130: // rt_sigsuspend
	case 230: // clock_nanosleep
	case 247: // waitid
	case 288: // accept4
		return IDLY;
	}
	return 0;
}

// Eight letters of a name, without what follows its end.
static __always_inline u64 letters(u64 word, bool *ended)
{
	u64 ends = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
	u64 kept = *ended ? 0 : ends ? (ends & -ends) - 1 : ~0ull;
	*ended |= ends != 0;
	// Of the byte that ends it, only its highest bit is above.
	return word & kept;
}

// Whether two names are the same: as words, because the verifier would follow each letter.
static __always_inline bool same(const u64 *a, const char *b)
{
	u64 words[2];
	bool ended = false, ended_b = false;
	if (bpf_probe_read_kernel(words, sizeof(words), b))
		return false;
	return letters(a[0], &ended) == letters(words[0], &ended_b) &&
	       letters(a[1], &ended) == letters(words[1], &ended_b);
}

static __always_inline bool in_group(struct task_struct *task, u64 group)
{
	struct cgroup *cgroup = task->cgroups->dfl_cgrp;
	for (int i = 0; i < MAX_GROUP_DEPTH && cgroup; i++) {
		if (BPF_CORE_READ(cgroup, kn, id) == group)
			return true;
		// `self` is the first member of a group.
		cgroup = (void *)BPF_CORE_READ(cgroup, self.parent);
	}
	return false;
}

static __always_inline bool is_about(struct watch *watch, struct task_struct *task)
{
	u32 flags = watch->flags;
	if (flags & ABOUT_THREAD)
		return same(watch->name, task->comm);
	if (task->flags & PF_KTHREAD)
		return false;
	if (task->pid != task->tgid && !(flags & ALL_THREADS))
		return false;
	if (flags & ABOUT_PROCESS)
		return same(watch->name, task->group_leader->comm);
	if (flags & ABOUT_PID)
		return task->tgid == watch->pid;
	if (flags & ABOUT_GROUP)
		return in_group(task, watch->group);
	if (flags & ABOUT_USER)
		return task->cred->uid.val == watch->user;
	return flags & ABOUT_ANYONE;
}

// What a thread did last.
struct lately {
	u64 left_ns; // it waits since; 0: it does not
	u64 back_ns; // it is back from its wait for events since; 0: it never was
	u32 kind; // of its last wait
};

// Since when a thread has been doing what a watch is about; 0 if it is not.
static __always_inline u64 since(struct watch *watch, const struct lately *lately)
{
	if (watch->flags & LOOPS)
		// In its wait for events, it is where it should be.
		return lately->left_ns && lately->kind & FOR_EVENTS ? 0 : lately->back_ns;
	return lately->kind & IDLY && !(watch->flags & IDLE_WAITS) ? 0 : lately->left_ns;
}

static __always_inline struct watch *watch_at(struct watched *watched, u32 number)
{
	return number < watched->count ? bpf_map_lookup_elem(&watches, &number) : 0;
}

static __always_inline void write_hit(struct watched *watched, u32 number, struct watch *watch,
				      struct task_struct *task, u64 from, u64 to)
{
	if (to - watch->last_ns < MIN_BETWEEN_HITS_NS) {
		watch->held++;
		return;
	}
	struct hit *hit = bpf_ringbuf_reserve(&hits, sizeof(*hit), 0);
	if (!hit) {
		watch->held++;
		return;
	}
	*hit = (struct hit){ number, task->pid, task->tgid, watched->set, from, to, watch->held };
	watch->held = 0;
	watch->last_ns = to;
	bpf_ringbuf_submit(hit, BPF_RB_FORCE_WAKEUP);
}

// A wait, or the time away from an event loop, has ended, and may be long enough for a watch.
static __noinline void has_ended(struct watched *watched, struct task_struct *task, u32 loops,
				 const struct lately *lately, u64 now)
{
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		struct watch *watch = watch_at(watched, i);
		if (!watch)
			break;
		if ((watch->flags & LOOPS) != loops)
			continue;
		u64 from = since(watch, lately);
		if (from && now - from >= watch->threshold_ns && is_about(watch, task))
			write_hit(watched, i, watch, task, from, now);
	}
}

// A thread begins to wait. Its event loop, if it has one, was away since `back`.
static __always_inline void watch_leaving(struct watched *watched, struct task_struct *task,
					  u64 back, u32 kind, u64 now)
{
	if (!watched || !(kind & FOR_EVENTS) || !back || now - back < watched->shortest_away_ns)
		return;
	struct lately lately = { .back_ns = back, .kind = kind };
	has_ended(watched, task, LOOPS, &lately, now);
}

// A thread is back from a wait that began at `left`.
static __always_inline void watch_coming(struct watched *watched, struct task_struct *task,
					 u64 left, u32 kind, u64 now)
{
	if (!watched || now - left < watched->shortest_wait_ns)
		return;
	struct lately lately = { .left_ns = left, .kind = kind };
	has_ended(watched, task, 0, &lately, now);
}

// Lists what a thread does that has not ended, and is long enough already.
static __always_inline void list_unended(struct watched *watched, struct seq_file *list,
					 struct task_struct *task, const struct lately *lately,
					 u64 now)
{
	if (!watched)
		return;
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		struct watch *watch = watch_at(watched, i);
		if (!watch)
			break;
		u64 from = since(watch, lately);
		// Another CPU may have ended it meanwhile, a little later than this.
		if (!from || now < from || now - from < watch->threshold_ns || !is_about(watch, task))
			continue;
		struct hit hit = { i, task->pid, task->tgid, watched->set, from, now, 0 };
		bpf_seq_write(list, &hit, sizeof(hit));
	}
}
