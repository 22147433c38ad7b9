// Facts beside switches and wake-ups, each from a tracepoint of its own that a kernel may lack:
// signals, requests to disks, interrupts, searches for memory, and who wrote to the page cache.
#pragma once

#include "kernel.h"
#include "ring.h"
#include "stacks.h"
#include "write.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// What takes less than this is left out.
#define MIN_REQUEST_NS 200000
#define MIN_HANDLER_NS 100000
#define MIN_SEARCH_NS 200000
// A process that writes to the page cache is noted each time that it has written so much.
#define DIRTIED_BYTES (1 << 20)

// Reserves the record of a fact and writes its head. NULL without room.
static __always_inline void *new_fact(struct cpu_ring *ring, u32 cpu, u64 now, enum fact fact,
				      u32 tid, u32 len)
{
	struct fact_head *head = new_record(ring, cpu, now, FACT, fact, len);
	if (!head)
		return 0;
	head->tid = tid;
	head->kernel_stack = 0;
	head->user_stack = 0;
	head->unused = 0;
	return head;
}
#define NEW_FACT(RING, CPU, NOW, FACT, TID, TYPE)                                                 \
	((struct TYPE *)new_fact(RING, CPU, NOW, FACT, TID, sizeof(struct TYPE)))

// ------------------------------------------------------------------------------------- signals

// INT, QUIT, KILL, TERM, CONT, STOP, TSTP, TTIN, TTOU: what ends, stops and continues programs.
#define SIGCONT 18
#define NOTED_SIGNALS (1u << 2 | 1u << 3 | 1u << 9 | 1u << 15 | 0x1fu << 18)

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int sig, void *info, struct task_struct *task, int group, int result)
{
	// An ignored one, or one that is pending already, does nothing, but for SIGCONT.
	if ((result && sig != SIGCONT) || sig <= 0 || sig > 31 || !(NOTED_SIGNALS >> sig & 1))
		return 0;
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct task_struct *current = bpf_get_current_task_btf();
	bool own_stack = is_on_own_stack(ring, ctx, current);
	bool interrupt = !own_stack || was_interrupted(current);
	u32 kernel_stack = 0, user_stack = 0;
	if (own_stack && wanted_wait_ns(now) <= LONG_WAITS * min_wait_ns) {
		// An exception is no interrupt.
		interrupt = stacks(ctx, ring, cpu, now, AT_WAKING, 0, 0, &kernel_stack, &user_stack);
		spend(now);
	}
	// An interrupt has nothing to do with the current thread.
	u32 sender = interrupt ? 0 : current->pid;
	struct signal_sent *sent = NEW_FACT(ring, cpu, now, SIGNAL_SENT, sender, signal_sent);
	if (sent) {
		sent->head.kernel_stack = kernel_stack;
		sent->head.user_stack = user_stack;
		sent->signal = sig;
		sent->tid = task->pid;
	}
	leave(ring);
	return 0;
}

// ------------------------------------------------------------------------------ requests to disks

// Who asked for a request, by its address, which is written last. Another request may take the
// entry.
struct asker {
	u64 request;
	u32 tid;
	u32 unused;
	u64 group;
};
#define ASKERS 4096
ARRAY(askers, struct asker, ASKERS, 0);

static __always_inline struct asker *asker_of(u64 request)
{
	u32 key = (request * 0x9e3779b97f4a7c15ull) >> 52;
	return bpf_map_lookup_elem(&askers, &key);
}

SEC("tp_btf/block_io_start")
int BPF_PROG(on_request, struct request *request)
{
	u64 address = 0;
	// Interrupts are on: nothing shared may be used to make a number of it.
	bpf_probe_read_kernel(&address, sizeof(address), &request);
	struct asker *asker = asker_of(address);
	if (!asker)
		return 0;
	struct bio *bio = request->bio;
	*(volatile u64 *)&asker->request = 0;
	asker->tid = bpf_get_current_pid_tgid();
	asker->group = bio ? BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id) : 0;
	*(volatile u64 *)&asker->request = address;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_request_done, struct request *request, u8 status, unsigned int bytes)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u64 begun = request->start_time_ns, issued = request->io_start_time_ns;
	if (!begun || now - begun < MIN_REQUEST_NS)
		goto out;
	u64 address = address_of(ring, request);
	struct asker *asker = asker_of(address);
	bool known = asker && asker->request == address;
	u32 tid = known ? asker->tid : 0;
	u64 group = known ? asker->group : 0;
	// Meanwhile, another request on another CPU may have taken the entry.
	known = known && *(volatile u64 *)&asker->request == address;
	struct request_done *done =
		NEW_FACT(ring, cpu, now, REQUEST_DONE, known ? tid : 0, request_done);
	if (!done)
		goto out;
	struct gendisk *disk = BPF_CORE_READ(request, q, disk);
	done->device = disk ? (u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor)
			    : 0;
	done->operation = request->cmd_flags;
	done->sector = request->__sector;
	done->bytes = bytes;
	done->status = status;
	done->queued_ns = issued > begun ? issued - begun : 0;
	done->device_ns = now - (issued > begun ? issued : begun);
	done->group = known ? group : 0;
out:
	leave(ring);
	return 0;
}

// ------------------------------------------------------------------------------------ interrupts

// Handlers of interrupts do not nest, and a soft interrupt is not interrupted by another.
static __always_inline struct cpu_ring *ring_here(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, &cpu);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_interrupt, int irq, struct irqaction *action)
{
	struct cpu_ring *ring = ring_here();
	if (ring)
		ring->interrupt_began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_soft_interrupt, unsigned int vector)
{
	struct cpu_ring *ring = ring_here();
	if (ring)
		ring->soft_interrupt_began_ns = bpf_ktime_get_ns();
	return 0;
}

// Notes a handler that ran for long. `name` may be NULL.
static __always_inline void ran_for_long(u64 now, u64 ns, enum fact fact, u32 number,
					 const char *name)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return;
	struct handler_ran *ran = NEW_FACT(ring, cpu, now, fact, 0, handler_ran);
	if (ran) {
		ran->ns = ns;
		ran->number = number;
		__builtin_memset(ran->name, 0, sizeof(ran->name));
		if (name)
			bpf_probe_read_kernel_str(ran->name, sizeof(ran->name), name);
	}
	leave(ring);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_end_of_interrupt, int irq, struct irqaction *action)
{
	struct cpu_ring *ring = ring_here();
	if (!ring || !ring->interrupt_began_ns)
		return 0;
	u64 now = bpf_ktime_get_ns(), ns = now - ring->interrupt_began_ns;
	ring->interrupt_began_ns = 0;
	if (ns >= MIN_HANDLER_NS)
		ran_for_long(now, ns, INTERRUPT_RAN, irq, action->name);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_end_of_soft_interrupt, unsigned int vector)
{
	struct cpu_ring *ring = ring_here();
	if (!ring || !ring->soft_interrupt_began_ns)
		return 0;
	u64 now = bpf_ktime_get_ns(), ns = now - ring->soft_interrupt_began_ns;
	ring->soft_interrupt_began_ns = 0;
	if (ns >= MIN_HANDLER_NS)
		ran_for_long(now, ns, SOFT_INTERRUPT_RAN, vector, 0);
	return 0;
}

// ---------------------------------------------------------------------------------------- memory

// When threads began to look for memory.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} searches SEC(".maps");

static __always_inline int begin_search(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	bpf_map_update_elem(&searches, &tid, &now, BPF_ANY);
	return 0;
}

static __always_inline int end_search(enum fact fact, u64 pages)
{
	u32 tid = bpf_get_current_pid_tgid(), cpu = bpf_get_smp_processor_id();
	u64 *begun = bpf_map_lookup_elem(&searches, &tid), now = bpf_ktime_get_ns();
	if (!begun)
		return 0;
	u64 ns = now - *begun;
	bpf_map_delete_elem(&searches, &tid);
	struct cpu_ring *ring = ns >= MIN_SEARCH_NS ? enter(cpu) : 0;
	if (!ring)
		return 0;
	struct memory_sought *sought = NEW_FACT(ring, cpu, now, fact, tid, memory_sought);
	if (sought) {
		sought->ns = ns;
		sought->pages = pages;
	}
	leave(ring);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_reclaim)
{
	return begin_search();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_end_of_reclaim, unsigned long pages)
{
	return end_search(RECLAIMED, pages);
}

SEC("tp_btf/mm_compaction_begin")
int BPF_PROG(on_compaction)
{
	return begin_search();
}

SEC("tp_btf/mm_compaction_end")
int BPF_PROG(on_end_of_compaction)
{
	return end_search(COMPACTED, 0);
}

// ------------------------------------------------------------------------------------ page cache

// How much of a file system a process has written to the page cache since that was noted.
struct writer {
	u32 tgid;
	u32 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct writer);
	__type(value, u64);
} writers SEC(".maps");

static __always_inline u64 bytes_of(struct folio *folio)
{
	u64 flags = 0;
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	bool large = flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1;
	struct folio___of_old *old = (void *)folio;
	u32 order = 0;
	if (large && bpf_core_field_exists(old->_folio_order))
		order = BPF_CORE_READ(old, _folio_order);
	else if (large && bpf_core_field_exists(folio->_flags_1))
		order = BPF_CORE_READ(folio, _flags_1) & 0xff;
	return (u64)PAGE_BYTES << (order & 31);
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(on_dirtied, struct folio *folio, struct address_space *mapping)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct writer writer = { bpf_get_current_pid_tgid() >> 32,
				 mapping ? BPF_CORE_READ(mapping, host, i_sb, s_dev) : 0 };
	u64 bytes = bytes_of(folio), *known = bpf_map_lookup_elem(&writers, &writer);
	u64 sum = known ? __sync_fetch_and_add(known, bytes) + bytes : bytes;
	u64 left = sum < DIRTIED_BYTES ? sum : 0;
	if (!known)
		bpf_map_update_elem(&writers, &writer, &left, BPF_ANY);
	// Of two CPUs at once, one notes it.
	if (sum < DIRTIED_BYTES ||
	    (known && __sync_val_compare_and_swap(known, sum, 0) != sum))
		return 0;
	struct cpu_ring *ring = enter(cpu);
	if (!ring)
		return 0;
	struct dirtied *dirtied = NEW_FACT(ring, cpu, bpf_ktime_get_ns(), DIRTIED,
					   bpf_get_current_pid_tgid(), dirtied);
	if (dirtied) {
		dirtied->device = writer.device;
		dirtied->unused = 0;
		dirtied->bytes = sum;
	}
	leave(ring);
	return 0;
}
