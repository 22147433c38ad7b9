// What a thread waits for: the file, pipe or socket of its system call, and the other end.
#pragma once

#include "kernel.h"
#include "ring.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define FILE_TYPE 0170000
#define SOCKET_TYPE 0140000
#define FAMILY_UNIX 1
#define FAMILY_INET 2
#define FAMILY_INET6 10

// One bit for each system call of x86-64 whose first argument is the descriptor that it waits for:
// read, write, pread64, pwrite64, readv, writev, connect, accept, sendto, recvfrom, sendmsg,
// recvmsg, fcntl, flock, fsync, fdatasync, ftruncate, fallocate, accept4, preadv, pwritev,
// recvmmsg, syncfs, sendmmsg, preadv2, pwritev2.
static __always_inline bool has_descriptor(u64 syscall)
{
	const u64 low = 1ull << 0 | 1ull << 1 | 1ull << 17 | 1ull << 18 | 1ull << 19 | 1ull << 20 |
			1ull << 42 | 1ull << 43 | 1ull << 44 | 1ull << 45 | 1ull << 46 | 1ull << 47;
	switch (syscall) {
	case 72 ... 75:
	case 77:
	case 285:
	case 288:
	case 295:
	case 296:
	case 299:
	case 306:
	case 307:
	case 327:
	case 328:
		return true;
	}
	return syscall < 64 && low >> syscall & 1;
}

// poll(2) or ppoll(2)
#define IS_POLL(syscall) ((syscall) == 7 || (syscall) == 271)
// select(2) or pselect(2)
#define IS_SELECT(syscall) ((syscall) == 23 || (syscall) == 270)
#define POLLS_TO_READ 0x20c3 // POLLIN, POLLPRI, POLLRDNORM, POLLRDBAND, POLLRDHUP
#define POLLS_TO_WRITE 0x304 // POLLOUT, POLLWRNORM, POLLWRBAND

#define NOT_POLLED (~0ull)

struct polled_fd {
	s32 fd;
	u16 events, revents;
};

// The only descriptor that the current thread's poll or select with these arguments is about, and above
// bit 32 what for (enum polled). NOT_POLLED if there are several. Only the first 64 descriptors are looked
// for in a select. (A function that the verifier follows once.)
__noinline u64 polled(u64 syscall, u64 first, u64 second, u64 third)
{
	if (IS_POLL(syscall)) {
		struct polled_fd one;
		if (second != 1 || bpf_probe_read_user(&one, sizeof(one), (void *)first) || one.fd < 0)
			return NOT_POLLED;
		u64 what = (one.events & POLLS_TO_READ ? POLLED_TO_READ : 0) |
			   (one.events & POLLS_TO_WRITE ? POLLED_TO_WRITE : 0);
		return what << 32 | one.fd;
	}
	if (!IS_SELECT(syscall) || !first || first > 64)
		return NOT_POLLED;
	u64 read = 0, write = 0;
	if (second && bpf_probe_read_user(&read, sizeof(read), (void *)second))
		return NOT_POLLED;
	if (third && bpf_probe_read_user(&write, sizeof(write), (void *)third))
		return NOT_POLLED;
	u64 within = ~0ull >> (64 - first);
	u64 all = (read | write) & within;
	if (!all || all & (all - 1))
		return NOT_POLLED;
	u64 fd = 0;
	for (u32 step = 32; step; step /= 2)
		if (all >> fd >> step)
			fd += step;
	u64 what = (read & all ? POLLED_TO_READ : 0) | (write & all ? POLLED_TO_WRITE : 0);
	return what << 32 | fd;
}

static __always_inline u64 inode_of_socket(struct sock *sock)
{
	return sock ? BPF_CORE_READ(sock, sk_socket, file, f_inode, i_ino) : 0;
}

// The socket at the other end. Until the connection is accepted, that is nobody's yet, and the socket on
// which its owner listens stands for it, where the kernel knows that.
static __always_inline u64 inode_of_peer(struct unix_sock *local)
{
	struct unix_sock *peer = (void *)BPF_CORE_READ(local, peer);
	u64 inode = inode_of_socket((void *)peer);
	if (inode || !peer || !bpf_core_field_exists(peer->listener))
		return inode;
	return inode_of_socket(BPF_CORE_READ(peer, listener));
}

static __always_inline void describe_socket(struct descriptor *to, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	if (!sock)
		return;
	to->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (to->family == FAMILY_UNIX) {
		to->peer_inode = inode_of_peer((void *)sock);
	} else if (to->family == FAMILY_INET || to->family == FAMILY_INET6) {
		to->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
		to->peer_port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
		if (to->family == FAMILY_INET6)
			BPF_CORE_READ_INTO(&to->peer_address, sock, __sk_common.skc_v6_daddr);
		else
			BPF_CORE_READ_INTO((u32 *)to->peer_address, sock, __sk_common.skc_daddr);
	}
}

// The open file that is the descriptor `fd` of a thread; null if it has none.
static __always_inline struct file *file_of(struct task_struct *task, u64 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	struct file *file = 0;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
	return file;
}

// Describes the descriptor `fd` of a thread. Returns false if it has none.
static __always_inline bool describe(struct descriptor *to, struct task_struct *task, u64 fd)
{
	struct file *file = file_of(task, fd);
	if (!file)
		return false;
	__builtin_memset(to, 0, sizeof(*to));
	to->fd = fd;
	to->mode = BPF_CORE_READ(file, f_inode, i_mode);
	to->inode = BPF_CORE_READ(file, f_inode, i_ino);
	to->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	if ((to->mode & FILE_TYPE) == SOCKET_TYPE)
		describe_socket(to, file);
	else
		bpf_probe_read_kernel_str(to->name, sizeof(to->name),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return true;
}

// Describes what a thread's system call waits for. Returns false if that is not one descriptor, or if that
// of a poll cannot be read because the memory is another thread's.
static __always_inline bool describe_awaited(struct descriptor *to, struct task_struct *task,
					     struct pt_regs *regs, bool is_current)
{
	u64 syscall = regs->orig_ax;
	if (has_descriptor(syscall))
		return describe(to, task, regs->di);
	if (!is_current || (!IS_POLL(syscall) && !IS_SELECT(syscall)))
		return false;
	u64 one = polled(syscall, regs->di, regs->si, regs->dx);
	if (one == NOT_POLLED || !describe(to, task, (u32)one))
		return false;
	to->polled = one >> 32;
	return true;
}
