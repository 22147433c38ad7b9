// Watches the waits of some threads for the always-on recorder: writes a record for each that is
// longer than a threshold. An object of its own: it is loaded only if such triggers are configured,
// and then costs a comparison per switch, whatever the recorder records with.

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The parts of the kernel's types that are read; their layout comes from its BTF.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

typedef struct {
	u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	char comm[16];
	struct task_struct *group_leader;
	const struct cred *cred;
	struct css_set *cgroups;
};

struct pt_regs {
	unsigned long orig_ax;
};

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000
#define DEAD 0xb0 // TASK_DEAD, EXIT_DEAD, EXIT_ZOMBIE
#define MAX_WATCHES 16
#define MAX_DEPTH 8
// A watch writes at most one record in so much time; the others are counted.
#define MIN_BETWEEN_NS 100000000ull

// What a watch is about. These and `struct watch` are also in src/triggers/waits.rs.
#define LOOPS 0x01 // event loops that stay away, not waits
#define ALL_THREADS 0x02
#define IDLE_WAITS 0x04
#define BY_THREAD 0x10
#define BY_PROCESS 0x20
#define BY_PID 0x40
#define BY_GROUP 0x80
#define BY_USER 0x100
#define BY_NOTHING 0x200

struct watch {
	u64 threshold_ns;
	u64 group;
	u32 user, pid;
	u32 flags, unused;
	char name[16];
	u64 last_ns;
	u64 held; // hits without a record
};

// A watched thread.
struct thread {
	u64 left_ns; // it waits since; 0: it does not
	u64 back_ns; // it is back from its wait for events since; 0: it never was
	u32 watches; // a bit for each
	u32 flags;
	u32 pid, syscall;
};

// Flags of a thread.
#define WAITS_FOR_EVENTS 1
#define IDLE 2

struct hit {
	u32 watch, tid, pid, syscall;
	u64 from_ns, to_ns, held;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_WATCHES);
	__type(key, u32);
	__type(value, struct watch);
} watches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} hits SEC(".maps");

// How many watches there are; set before the program is loaded.
volatile const u32 watch_count;

static __always_inline bool same(const char *a, const char *b)
{
	for (int i = 0; i < 16; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			return true;
	}
	return true;
}

static __always_inline bool in_group(struct task_struct *task, u64 group)
{
	struct cgroup *cgroup = task->cgroups->dfl_cgrp;
	for (int i = 0; i < MAX_DEPTH && cgroup; i++) {
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
	if (flags & BY_THREAD)
		return same(watch->name, task->comm);
	if (task->flags & PF_KTHREAD)
		return false;
	if (task->pid != task->tgid && !(flags & ALL_THREADS))
		return false;
	if (flags & BY_PROCESS)
		return same(watch->name, task->group_leader->comm);
	if (flags & BY_PID)
		return task->tgid == watch->pid;
	if (flags & BY_GROUP)
		return in_group(task, watch->group);
	if (flags & BY_USER)
		return task->cred->uid.val == watch->user;
	return flags & BY_NOTHING;
}

// System calls of x86-64 in which a thread waits for events, for work, or for a set time.
static __always_inline u32 flags_of(u64 syscall)
{
	switch (syscall) {
	case 7: // poll
	case 23: // select
	case 232: // epoll_wait
	case 270: // pselect6
	case 271: // ppoll
	case 281: // epoll_pwait
	case 426: // io_uring_enter
	case 441: // epoll_pwait2
		return WAITS_FOR_EVENTS | IDLE;
	case 34: // pause
	case 35: // nanosleep
	case 43: // accept
	case 61: // wait4
	case 128: // rt_sigtimedwait
	case 130: // rt_sigsuspend
	case 230: // clock_nanosleep
	case 247: // waitid
	case 288: // accept4
		return IDLE;
	}
	return 0;
}

static __always_inline void hit(u32 number, u32 tid, struct thread *thread, u64 from, u64 to)
{
	struct watch *watch = bpf_map_lookup_elem(&watches, &number);
	if (!watch)
		return;
	if (to - watch->last_ns < MIN_BETWEEN_NS) {
		watch->held++;
		return;
	}
	struct hit *hit = bpf_ringbuf_reserve(&hits, sizeof(*hit), 0);
	if (!hit) {
		watch->held++;
		return;
	}
	hit->watch = number;
	hit->tid = tid;
	hit->pid = thread->pid;
	hit->syscall = thread->syscall;
	hit->from_ns = from;
	hit->to_ns = to;
	hit->held = watch->held;
	watch->held = 0;
	watch->last_ns = to;
	bpf_ringbuf_submit(hit, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void left(struct task_struct *task, u64 now)
{
	u32 tid = task->pid, mask = 0;
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		u32 number = i;
		if (i >= watch_count)
			break;
		struct watch *watch = bpf_map_lookup_elem(&watches, &number);
		if (watch && is_about(watch, task))
			mask |= 1u << i;
	}
	struct thread *known = bpf_map_lookup_elem(&threads, &tid);
	if (!mask) {
		// It has another name, user or group now, or its id was another's.
		if (known)
			bpf_map_delete_elem(&threads, &tid);
		return;
	}
	struct thread thread = { .left_ns = now, .watches = mask, .pid = task->tgid };
	thread.syscall = -1;
	if (!(task->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		u64 syscall = regs->orig_ax;
		thread.syscall = syscall;
		thread.flags = flags_of(syscall);
	}
	if (known && known->pid == thread.pid) {
		thread.back_ns = known->back_ns;
		if (thread.flags & WAITS_FOR_EVENTS && known->back_ns) {
			u64 away = now - known->back_ns;
			for (u32 i = 0; i < MAX_WATCHES; i++) {
				u32 number = i;
				struct watch *watch = bpf_map_lookup_elem(&watches, &number);
				if (watch && mask & 1u << i && watch->flags & LOOPS &&
				    away >= watch->threshold_ns)
					hit(i, tid, &thread, known->back_ns, now);
			}
		}
	}
	// Nobody else writes to a thread that is on its CPU.
	if (known)
		*known = thread;
	else
		bpf_map_update_elem(&threads, &tid, &thread, BPF_ANY);
}

static __always_inline void came(struct task_struct *task, u64 now)
{
	u32 tid = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread || !thread->left_ns)
		return;
	u64 from = thread->left_ns, waited = now - from;
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		u32 number = i;
		if (!(thread->watches & 1u << i))
			continue;
		struct watch *watch = bpf_map_lookup_elem(&watches, &number);
		if (watch && !(watch->flags & LOOPS) && waited >= watch->threshold_ns &&
		    (!(thread->flags & IDLE) || watch->flags & IDLE_WAITS))
			hit(i, tid, thread, from, now);
	}
	if (thread->flags & WAITS_FOR_EVENTS)
		thread->back_ns = now;
	thread->left_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_watched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();
	u32 state = prev->__state, tid = prev->pid;
	if (state & DEAD)
		bpf_map_delete_elem(&threads, &tid);
	else if (!preempt && state && tid)
		left(prev, now);
	if (next->pid)
		came(next, now);
	return 0;
}
