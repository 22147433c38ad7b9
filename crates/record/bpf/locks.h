// Which system call a thread is in, and who holds the lock that it waits for.
#pragma once

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define SYS_FUTEX 202
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_CMP_REQUEUE_PI 12
#define FUTEX_LOCK_PI2 13
#define FUTEX_COMMAND_MASK 0x7f
// In a futex that holds the owner's id: of PI futexes, and of the robust mutexes of glibc.
#define FUTEX_TID_MASK 0x3fffffff
#define FUTEX_WAITERS 0x80000000

// The beginning of glibc's pthread_mutex_t (nptl/bits/struct_mutex.h).
struct glibc_mutex {
	u32 lock;
	u32 count;
	u32 owner;
	u32 users;
	u32 kind;
};
// The values of a mutex that is held, and of one that others wait for, too: in glibc
// (sysdeps/nptl/lowlevellock.h) and in Rust's standard library (std/src/sys/sync/mutex/futex.rs).
#define HELD 1
#define CONTENDED 2
// All type, protocol and elision bits.
#define GLIBC_KINDS 0x3ff
#define GLIBC_ROBUST 0x10

// Whether the registers are those of a system call: whatever else enters the kernel leaves no number of
// one there.
static __always_inline bool in_syscall(struct pt_regs *regs)
{
	return regs->cs == USER_CS && (s64)regs->orig_ax >= 0;
}

// The thread that holds the lock at a futex that a thread waits for by such a command while it has the
// `expected` value, or waited for until now: then whoever took it since says so, and not yet that others
// wait. 0 if the lock does not say. The owner field of something that is no mutex can hold anything, so
// all its other fields must be plausible. (A function that the verifier follows once.)
__noinline int owner_of_futex(u64 address, u32 command, u32 expected, u32 is_back)
{
	struct glibc_mutex mutex;
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2) {
		u32 word;
		if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
			return 0;
		return word & FUTEX_TID_MASK;
	}
	bool is_robust = expected & FUTEX_WAITERS;
	if ((command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) ||
	    (expected != CONTENDED && !is_robust) ||
	    bpf_probe_read_user(&mutex, sizeof(mutex), (void *)address))
		return 0;
	if (!mutex.users || mutex.kind & ~GLIBC_KINDS)
		return 0;
	bool is_held = mutex.lock == CONTENDED || (is_back && mutex.lock == HELD);
	bool is_owned = mutex.kind & GLIBC_ROBUST && (mutex.lock & FUTEX_TID_MASK) == mutex.owner;
	return (is_robust ? is_owned : is_held) ? mutex.owner : 0;
}

static __always_inline u32 lock_owner(struct pt_regs *regs, bool is_back)
{
	if (regs->orig_ax != SYS_FUTEX || !in_syscall(regs))
		return 0;
	return owner_of_futex(regs->di, regs->si & FUTEX_COMMAND_MASK, regs->dx, is_back);
}

// Whether a thread waits for a mutex, as far as the value of the futex tells.
static __always_inline bool is_lock_wait(struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		return false;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u32 command = regs->si & FUTEX_COMMAND_MASK;
	return regs->orig_ax == SYS_FUTEX && in_syscall(regs) &&
	       (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2 ||
		(u32)regs->dx == CONTENDED || regs->dx & FUTEX_WAITERS);
}

// The futex at which a thread that is in the system call of `regs` wakes others; 0 if there is none,
// or if it may be one of two (FUTEX_WAKE_OP).
static __always_inline u64 woken_futex(struct pt_regs *regs)
{
	if (regs->orig_ax != SYS_FUTEX || !in_syscall(regs))
		return 0;
	u32 command = regs->si & FUTEX_COMMAND_MASK;
	u32 wakes = 1 << FUTEX_WAKE | 1 << FUTEX_REQUEUE | 1 << FUTEX_CMP_REQUEUE |
		    1 << FUTEX_UNLOCK_PI | 1 << FUTEX_WAKE_BITSET | 1 << FUTEX_CMP_REQUEUE_PI;
	return command < 32 && wakes >> command & 1 ? regs->di : 0;
}
