// The parts of the kernel's types that the recorder reads. Their layout comes from the running
// kernel's BTF when the program is loaded (CO-RE), so only names and types matter here.
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#define PF_FORKNOEXEC 0x00000040
#define PF_KTHREAD 0x00200000
#define PAGE_BYTES 4096
#define KERNEL_STACK_BYTES 16384
// `cs` of a 64-bit program.
#define USER_CS 0x33

#define ARRAY(NAME, VALUE, ENTRIES, FLAGS)                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, FLAGS);                                                          \
		__uint(max_entries, ENTRIES);                                                      \
		__type(key, u32);                                                                  \
		__type(value, VALUE);                                                              \
	} NAME SEC(".maps")

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

struct kernfs_node {
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
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

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

struct super_block {
	u32 s_dev;
};

struct list_head {
	struct list_head *next;
};

struct file_lock_context {
	struct list_head flc_flock;
	struct list_head flc_posix;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	struct file_lock_context *i_flctx;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	void *private_data;
	struct path f_path;
};

struct file_lock_core {
	struct list_head flc_list;
	unsigned char flc_type;
	int flc_pid;
	struct file *flc_file;
};

struct file_lock {
	struct file_lock_core c;
	long long fl_start;
	long long fl_end;
};

// Before 6.9.
struct file_lock___of_old {
	struct list_head fl_list;
	unsigned char fl_type;
	unsigned int fl_pid;
	struct file *fl_file;
	long long fl_start;
	long long fl_end;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct socket;

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	unsigned char skc_state;
	u32 skc_daddr;
	u16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	u32 sk_max_ack_backlog; // of a socket that listens, and of those that it has accepted
};

struct unix_address;

struct unix_sock {
	struct unix_address *addr; // of a socket that listens, and of those that it has accepted
	struct sock *peer;
	struct sock *listener; // until it is accepted
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct eventpoll {
	struct rb_root_cached rbr;
};

struct epoll_filefd {
	struct file *file;
};

struct epitem {
	struct rb_node rbn;
	struct epoll_filefd ffd;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct cfs_rq {
	int throttle_count;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct thread_struct {
	unsigned long fsbase;
};

struct task_struct {
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int on_cpu;
	struct sched_info sched_info;
	int prio;
	int pid;
	int tgid;
	char comm[16];
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	const struct cred *cred;
	struct css_set *cgroups;
	struct files_struct *files;
	struct sched_entity se;
	struct thread_struct thread;
	bool throttled; // Linux 6.18
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct blkcg_gq *bi_blkg;
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	unsigned int __data_len;
	u64 __sector;
	struct bio *bio;
	u64 start_time_ns;
	u64 io_start_time_ns;
};

struct irqaction {
	const char *name;
};

struct address_space {
	struct inode *host;
};

enum pageflags { PG_head = 6 };

struct folio {
	unsigned long _flags_1;
};

// Before 6.6.
struct folio___of_old {
	unsigned char _folio_order;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct pt_regs {
	unsigned long r11;
	unsigned long bp;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long sp;
};

#pragma clang attribute pop
