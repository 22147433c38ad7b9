// Locks on files that are refused at once. Who wants one sleeps and asks again, and whoever lets it go
// wakes nobody: only here it is seen what the sleeps are for, and who has the lock.
#pragma once

#include "facts.h"

#define EAGAIN 11
#define WRITE_LOCK 1
// Locks of one file that are looked at, and how often a refusal is noted on a CPU: a loop may ask a
// million times a second.
#define MAX_LOCKS 16
#define REFUSED_INTERVAL_NS 1000000

struct held_lock {
	u64 file;
	s64 start;
	s64 end;
	s32 pid;
	u32 is_write_lock;
};

static __always_inline void read_lock(struct held_lock *to, void *lock)
{
	struct file_lock *of = lock;
	struct file_lock___of_old *old = lock;
	if (bpf_core_type_exists(struct file_lock_core)) {
		to->file = (u64)BPF_CORE_READ(of, c.flc_file);
		to->start = BPF_CORE_READ(of, fl_start);
		to->end = BPF_CORE_READ(of, fl_end);
		to->pid = BPF_CORE_READ(of, c.flc_pid);
		to->is_write_lock = BPF_CORE_READ(of, c.flc_type) == WRITE_LOCK;
	} else {
		to->file = (u64)BPF_CORE_READ(old, fl_file);
		to->start = BPF_CORE_READ(old, fl_start);
		to->end = BPF_CORE_READ(old, fl_end);
		to->pid = BPF_CORE_READ(old, fl_pid);
		to->is_write_lock = BPF_CORE_READ(old, fl_type) == WRITE_LOCK;
	}
}

// The process with the first of a file's locks that keeps others from getting the one that is wanted; 0
// if there is none any more, or if it belongs to no process.
static __always_inline u32 holder_of(struct inode *inode, const struct held_lock *wanted, bool posix)
{
	u64 context = (u64)BPF_CORE_READ(inode, i_flctx);
	if (!context)
		return 0;
	u64 head = context + (posix ? bpf_core_field_offset(struct file_lock_context, flc_posix) :
				      bpf_core_field_offset(struct file_lock_context, flc_flock));
	u64 in_lock = bpf_core_type_exists(struct file_lock_core) ?
			      bpf_core_field_offset(struct file_lock_core, flc_list) :
			      bpf_core_field_offset(struct file_lock___of_old, fl_list);
	u32 own = bpf_get_current_pid_tgid() >> 32;
	u64 at = head;
	for (int number = 0; number < MAX_LOCKS; number++) {
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)at) || at == head)
			return 0;
		struct held_lock held;
		read_lock(&held, (void *)(at - in_lock));
		// A lock of flock(2) belongs to an open file, one of fcntl(2) to a process.
		bool is_other = posix ? held.pid != own && held.start <= wanted->end &&
						wanted->start <= held.end :
					held.file != wanted->file;
		if (is_other && (held.is_write_lock || wanted->is_write_lock))
			return held.pid > 0 ? held.pid : 0;
	}
	return 0;
}

static __always_inline int refused(struct inode *inode, struct file_lock *lock, int result, bool posix)
{
	if (result != -EAGAIN || !inode || !lock)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	if (now - ring->refused_ns < REFUSED_INTERVAL_NS)
		goto out;
	ring->refused_ns = now;
	struct held_lock wanted;
	read_lock(&wanted, lock);
	struct file *file = (void *)wanted.file;
	u32 holder = holder_of(inode, &wanted, posix);
	struct lock_refused *fact = NEW_FACT(ring, cpu, now, posix ? POSIX_LOCK_REFUSED : FLOCK_REFUSED,
					     bpf_get_current_pid_tgid(), lock_refused);
	if (fact) {
		fact->holder = holder;
		fact->device = BPF_CORE_READ(inode, i_sb, s_dev);
		fact->inode = BPF_CORE_READ(inode, i_ino);
		fact->unused = 0;
		__builtin_memset(fact->name, 0, sizeof(fact->name));
		bpf_probe_read_kernel_str(fact->name, sizeof(fact->name),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	}
out:
	leave(ring);
	return 0;
}

SEC("tp_btf/flock_lock_inode")
int BPF_PROG(on_flock, struct inode *inode, struct file_lock *lock, int result)
{
	return refused(inode, lock, result, false);
}

SEC("tp_btf/posix_lock_inode")
int BPF_PROG(on_posix_lock, struct inode *inode, struct file_lock *lock, int result)
{
	return refused(inode, lock, result, true);
}
