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

struct task_struct {
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int prio;
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct task_struct *real_parent;
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
