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

static __always_inline u64 inode_of_socket(struct sock *sock)
{
	return sock ? BPF_CORE_READ(sock, sk_socket, file, f_inode, i_ino) : 0;
}

static __always_inline void describe_socket(struct descriptor *to, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	if (!sock)
		return;
	to->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (to->family == FAMILY_UNIX) {
		struct unix_sock *local = (void *)sock;
		to->peer_inode = inode_of_socket(BPF_CORE_READ(local, peer));
	} else if (to->family == FAMILY_INET || to->family == FAMILY_INET6) {
		to->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
		to->peer_port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
		if (to->family == FAMILY_INET6)
			BPF_CORE_READ_INTO(&to->peer_address, sock, __sk_common.skc_v6_daddr);
		else
			BPF_CORE_READ_INTO((u32 *)to->peer_address, sock, __sk_common.skc_daddr);
	}
}

// Describes the descriptor `fd` of a thread. Returns false if it has none.
static __always_inline bool describe(struct descriptor *to, struct task_struct *task, u64 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return false;
	struct file *file = 0;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
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
