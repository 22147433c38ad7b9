// What event loops wait for at a save: the connections in the sets of epoll(7) that their process has
// made itself, as a client. Those are the ones on which it may have asked for something.
//
// The sets are read without the kernel's lock, which a process can hold for as long as it likes. A set
// that changes meanwhile is read in part.
#pragma once

#include "descriptors.h"
#include "kernel.h"
#include "sleepers.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

// epoll_wait(2), epoll_pwait(2), epoll_pwait2(2)
#define IS_EPOLL(syscall) ((syscall) == 232 || (syscall) == 281 || (syscall) == 441)
// The beginning of "[eventpoll]", by which such files are called.
#define EVENTPOLL_NAME 0x6f70746e6576655bull
#define CONNECTED 1
// In the place of a node: with all below it.
#define VISITED 1ull
// Maximum steps in the tree of a set; each of its descriptors takes up to two.
#define MAX_STEPS 1024

// A connection that an event loop waits for.
struct asking {
	u32 tid;
	u16 local_port, peer_port; // of a TCP or UDP socket
	u64 inode; // 0: the set has more than were looked at
	u64 peer_inode; // of a Unix socket: the other end, or who listens if it is not accepted
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct asking);
} asking SEC(".maps");

static __always_inline bool note_socket(struct asking *to, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	if (!sock || BPF_CORE_READ(sock, __sk_common.skc_state) != CONNECTED)
		return false;
	u32 family = BPF_CORE_READ(sock, __sk_common.skc_family);
	to->inode = BPF_CORE_READ(file, f_inode, i_ino);
	to->local_port = to->peer_port = to->peer_inode = 0;
	if (family == FAMILY_UNIX) {
		if (BPF_CORE_READ((struct unix_sock *)sock, addr))
			return false;
		to->peer_inode = inode_of_peer((void *)sock);
		return to->peer_inode;
	}
	if (family != FAMILY_INET && family != FAMILY_INET6)
		return false;
	to->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	to->peer_port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
	return to->peer_port && !BPF_CORE_READ(sock, sk_max_ack_backlog);
}

// Notes in `asking` the connection at a node of a set, if it was made by this side. False for all
// others. (This and the next are functions that the verifier follows once, not at each step.)
__noinline int note_connection(u64 node)
{
	u32 key = 0;
	struct asking *to = bpf_map_lookup_elem(&asking, &key);
	struct file *file = BPF_CORE_READ((struct epitem *)node, ffd.file);
	if (!to || (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) != SOCKET_TYPE)
		return false;
	return note_socket(to, file);
}

// The next node of a tree; its lowest bit is set if all below it has been visited. 0 after the last.
__noinline u64 next_node(u64 at)
{
	struct rb_node *node = (void *)(at & ~3ull);
	if (!(at & VISITED)) {
		u64 below = (u64)BPF_CORE_READ(node, rb_left);
		if (!below)
			below = (u64)BPF_CORE_READ(node, rb_right);
		return below ? below : at | VISITED;
	}
	u64 above = BPF_CORE_READ(node, __rb_parent_color) & ~3ull;
	if (!above)
		return 0;
	u64 right = (u64)BPF_CORE_READ((struct rb_node *)above, rb_right);
	return right && right != (u64)node ? right : above | VISITED;
}

// The set that a thread waits for with epoll; null if it does not.
static __always_inline struct eventpoll *awaited_set(struct task_struct *task)
{
	if (!task->__state || task->flags & PF_KTHREAD || is_on_cpu(task) || !is_64_bit(task))
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	if (!in_syscall(regs) || !IS_EPOLL(regs->orig_ax))
		return 0;
	struct file *file = file_of(task, regs->di);
	u64 name = 0;
	if (!file)
		return 0;
	bpf_probe_read_kernel(&name, sizeof(name),
			      BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return name == EVENTPOLL_NAME ? BPF_CORE_READ(file, private_data) : 0;
}

SEC("iter/task")
int on_each_event_loop(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct eventpoll *set = task ? awaited_set(task) : 0;
	if (!set)
		return 0;
	u32 key = 0;
	struct asking *to = bpf_map_lookup_elem(&asking, &key);
	if (!to)
		return 0;
	to->tid = task->pid;
	u64 node = (u64)BPF_CORE_READ(set, rbr.rb_root.rb_node);
	for (int step = 0; step < MAX_STEPS && node; step++) {
		if (!(node & VISITED) && note_connection(node))
			bpf_seq_write(ctx->meta->seq, to, sizeof(*to));
		node = next_node(node);
	}
	if (node) {
		to->inode = 0;
		bpf_seq_write(ctx->meta->seq, to, sizeof(*to));
	}
	return 0;
}
