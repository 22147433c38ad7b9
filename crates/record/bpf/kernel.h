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
typedef __s32 s32;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

struct task_struct {
	void *stack;
	unsigned int flags;
	int prio;
	int pid;
	int tgid;
	struct mm_struct *mm;
};

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
	unsigned long si;
	unsigned long dx;
};

#pragma clang attribute pop
