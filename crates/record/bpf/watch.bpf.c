// Watches the waits of some threads (watch.h) for the always-on recorder where performance events
// record: recorder.bpf.c does it by itself. It is loaded only if such triggers are configured.
//
// A switch costs two times: that of who leaves is noted, and that of who comes on is compared.

#include "kernel.h"
#include "watch.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

ARRAY(shared, struct watched, 1, BPF_F_MMAPABLE);

static __always_inline struct watched *watched_here(void)
{
	u32 key = 0;
	return bpf_map_lookup_elem(&shared, &key);
}

#define DEAD 0xb0 // TASK_DEAD, EXIT_DEAD, EXIT_ZOMBIE

// What a thread did last.
struct thread {
	u64 id; // see `id_of`; 0: nobody's
	struct lately lately;
};

// Those of a set are in two cache lines.
#define THREADS_OF_SET 4
#define SETS 4096

struct set {
	struct thread threads[THREADS_OF_SET];
};

ARRAY(sets, struct set, SETS, 0);

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
	other->lately.left_ns = 0;
	other->lately.back_ns = 0;
	return other;
}

static __always_inline void left(struct task_struct *task, u64 now)
{
	struct thread *thread = find(id_of(task), true);
	if (!thread)
		return;
	u32 kind = kind_of_wait(task);
	watch_leaving(watched_here(), task, thread->lately.back_ns, kind, now);
	thread->lately.kind = kind;
	thread->lately.left_ns = now;
}

static __always_inline void came(struct task_struct *task, u64 now)
{
	struct thread *thread = find(id_of(task), false);
	if (!thread || !thread->lately.left_ns)
		return;
	u32 kind = thread->lately.kind;
	watch_coming(watched_here(), task, thread->lately.left_ns, kind, now);
	if (kind & FOR_EVENTS)
		thread->lately.back_ns = now;
	thread->lately.left_ns = 0;
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
		thread->lately.back_ns = 0;
	return 0;
}

SEC("iter/task")
int on_each_watched_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *thread = task ? find(id_of(task), false) : 0;
	if (!thread)
		return 0;
	struct lately lately = thread->lately;
	list_unended(watched_here(), ctx->meta->seq, task, &lately, bpf_ktime_get_ns());
	return 0;
}
