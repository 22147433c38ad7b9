// Watches the waits of some threads for the always-on recorder: writes a record for each that is
// longer than a threshold. An object of its own: it is loaded only if such triggers are configured,
// whatever the recorder records with.
//
// Whether a thread is watched is only looked at once it has waited for long. A switch costs two
// times: that of who leaves is noted, and that of who comes on is compared.

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

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
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

// What a thread did last.
struct thread {
	u64 id; // see `id_of`; 0: nobody's
	u64 left_ns; // it waits since; 0: it does not
	u64 back_ns; // it is back from its wait for events since; 0: it never was
	u32 flags; // of its last wait
	u32 unused;
};

// Flags of a wait.
#define WAITS_FOR_EVENTS 1
#define IDLE 2

// Those of a set are in two cache lines.
#define THREADS_OF_SET 4
#define SETS 4096

struct set {
	struct thread threads[THREADS_OF_SET];
};

struct hit {
	u32 watch, tid, pid, unused;
	u64 from_ns, to_ns, held;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_WATCHES);
	__type(key, u32);
	__type(value, struct watch);
} watches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SETS);
	__type(key, u32);
	__type(value, struct set);
} sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} hits SEC(".maps");

// Set before the programs are loaded: how many watches there are, and the lowest threshold of those
// about waits, and of those about event loops.
volatile const u32 watch_count;
volatile const u64 shortest_wait_ns = ~0ull;
volatile const u64 shortest_away_ns = ~0ull;

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

static __always_inline u64 id_of(struct task_struct *task)
{
	return (u64)task->tgid << 32 | (u32)task->pid;
}

// What is known of a thread. With `take`, it may take the place of another thread of its set, whose
// wait is then forgotten.
static __always_inline struct thread *find(u64 id, bool take)
{
	u32 key = (u32)id & (SETS - 1);
	struct set *set = bpf_map_lookup_elem(&sets, &key);
	if (!set)
		return 0;
	struct thread *other = &set->threads[(u32)id / SETS & (THREADS_OF_SET - 1)];
	for (u32 i = 0; i < THREADS_OF_SET; i++) {
		struct thread *thread = &set->threads[i];
		if (thread->id == id)
			return thread;
		if (!thread->id)
			other = thread;
	}
	u64 before = other->id;
	// Another CPU may take it at this instant.
	if (!take || __sync_val_compare_and_swap(&other->id, before, id) != before)
		return 0;
	other->left_ns = 0;
	other->back_ns = 0;
	return other;
}

// Since when a thread has been doing what a watch is about; 0 if it is not.
static __always_inline u64 since(struct watch *watch, u64 left, u64 back, u32 flags)
{
	if (watch->flags & LOOPS)
		// In its wait for events, it is where it should be.
		return left && flags & WAITS_FOR_EVENTS ? 0 : back;
	return flags & IDLE && !(watch->flags & IDLE_WAITS) ? 0 : left;
}

static __always_inline void hit(u32 number, struct watch *watch, u64 id, u64 from, u64 to)
{
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
	hit->tid = (u32)id;
	hit->pid = id >> 32;
	hit->unused = 0;
	hit->from_ns = from;
	hit->to_ns = to;
	hit->held = watch->held;
	watch->held = 0;
	watch->last_ns = to;
	bpf_ringbuf_submit(hit, BPF_RB_FORCE_WAKEUP);
}

// A wait, or the time away from an event loop, has ended, and may be long enough for a watch.
static __always_inline void ended(struct task_struct *task, u64 id, u32 loops, u64 left, u64 back,
				  u32 flags, u64 now)
{
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		u32 number = i;
		if (i >= watch_count)
			break;
		struct watch *watch = bpf_map_lookup_elem(&watches, &number);
		if (!watch || (watch->flags & LOOPS) != loops)
			continue;
		u64 from = since(watch, left, back, flags);
		if (from && now - from >= watch->threshold_ns && is_about(watch, task))
			hit(i, watch, id, from, now);
	}
}

static __always_inline void left(struct task_struct *task, u64 now)
{
	u64 id = id_of(task);
	struct thread *thread = find(id, true);
	if (!thread)
		return;
	u32 flags = 0;
	if (!(task->flags & PF_KTHREAD))
		flags = flags_of(((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax);
	u64 back = thread->back_ns;
	if (back && flags & WAITS_FOR_EVENTS && now - back >= shortest_away_ns)
		ended(task, id, LOOPS, 0, back, flags, now);
	thread->flags = flags;
	thread->left_ns = now;
}

static __always_inline void came(struct task_struct *task, u64 now)
{
	u64 id = id_of(task);
	struct thread *thread = find(id, false);
	if (!thread || !thread->left_ns)
		return;
	u64 left = thread->left_ns;
	u32 flags = thread->flags;
	if (now - left >= shortest_wait_ns)
		ended(task, id, 0, left, 0, flags, now);
	if (flags & WAITS_FOR_EVENTS)
		thread->back_ns = now;
	thread->left_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_watched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();
	u32 state = prev->__state;
	if (state & DEAD) {
		struct thread *thread = find(id_of(prev), false);
		if (thread)
			thread->id = 0;
	} else if (!preempt && state && prev->pid) {
		left(prev, now);
	}
	if (next->pid)
		came(next, now);
	return 0;
}

// Another program has another event loop.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_watched_exec, struct task_struct *task)
{
	struct thread *thread = find(id_of(task), false);
	if (thread)
		thread->back_ns = 0;
	return 0;
}

// Lists what has not ended, and is long enough already.
SEC("iter/task")
int on_each_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	u64 id = id_of(task), now = bpf_ktime_get_ns();
	struct thread *thread = find(id, false);
	if (!thread)
		return 0;
	u64 left = thread->left_ns, back = thread->back_ns;
	u32 flags = thread->flags;
	for (u32 i = 0; i < MAX_WATCHES; i++) {
		u32 number = i;
		if (i >= watch_count)
			break;
		struct watch *watch = bpf_map_lookup_elem(&watches, &number);
		u64 from = watch ? since(watch, left, back, flags) : 0;
		// Another CPU may have ended it meanwhile, a little later than this.
		if (!from || now < from || now - from < watch->threshold_ns || !is_about(watch, task))
			continue;
		struct hit hit = { i, (u32)id, id >> 32, 0, from, now, 0 };
		bpf_seq_write(ctx->meta->seq, &hit, sizeof(hit));
	}
	return 0;
}
