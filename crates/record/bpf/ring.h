// The ring of one CPU, as the kernel's part writes it and `unhitch-formats` reads it. All numbers
// are little-endian; docs/recording.md explains the whole.
//
// A ring is a number of blocks, a power of two, that are written one after another and then again
// from the first. A block begins with a `block_header`; records follow up to its end, or up to a
// word of 0. A record is one word or more. `written` of `cpu_ring` says up to where the ring is
// complete.
#pragma once

#define BLOCK_BYTES 32768
// No record is longer.
#define MAX_RECORD_BYTES 2048
#define MAX_FRAMES 127
#define KNOWN_STACKS_PER_CPU 4096
#define TASK_SLOTS 65536
#define TASK_PLACES 4
// Places of each thread that are remembered: numbers from 1.
#define PLACES 7

struct block {
	u8 bytes[BLOCK_BYTES];
};

struct block_header {
	u64 number; // its position in the ring by blocks, from 1; what it overwrote had less
	u64 base_ns; // CLOCK_MONOTONIC; records count from here
	u32 current; // the thread on the CPU
	u32 cpu;
};

// The state of a ring, outside of it. Three cache lines: every event uses the first, a switch and the
// end of an interrupt also the second.
struct cpu_ring {
	u64 head; // bytes reserved since the beginning
	u64 written; // bytes written since the beginning
	u64 base_ns; // of the block that is being written
	u64 begun; // number of the block that `base_ns` belongs to
	u32 current; // who came on last
	u32 depth; // programs that are running on this CPU
	u64 python; // of the slot of `current`
	u64 context; // where the program was called, as a number
	u64 wakings;

	u64 switches;
	u64 pending_ns; // the thread that is coming on left its CPU at this time; 0: nothing to write
	u64 pending_blocked_ns; // how long it was blocked since then; 0: it waited for a CPU only
	u32 pending_due; // whether its stacks are due
	u32 pending_known; // whether its stack is known by its place
	u64 interrupt_began_ns; // since when the handler of an interrupt runs; 0: none does
	u64 soft_interrupt_began_ns;
	u64 cached; // stacks that were not unwound, because they were as remembered
	u64 differed; // of those that were compared, stacks that were not as remembered

	u64 not_reserved; // records lost because programs kept interrupting each other
	u64 refused_ns; // when a lock on a file was refused and noted
	u64 unused[6]; // the next ring is on another line
};
_Static_assert(sizeof(struct cpu_ring) == 192, "as in rings.rs");

// What a thread did last. Its slot is at one of TASK_PLACES places, which follow from its id. Two
// cache lines, of which an event mostly needs the first: threads that switch now and then find
// neither in the cache (docs/figures.md).
struct task_slot {
	u32 tid; // 0: nobody's
	s16 prio; // as last written; UNKNOWN_PRIO if it was not
	u16 prio_period; // when its priority was last written, in PRIO_PERIODs
	u64 since_ns; // it left its CPU; 0 if it is on one
	u32 woken_us; // it was woken so long after that; 0 if it was not
	u32 back; // when it was back from its last wait for events, in BACK_PERIODs; 0: it never was
	u32 place; // where it waits (`place_of`)
	u32 waker_place; // where it was woken from
	u32 owner; // the thread that holds the lock that it waits for; 0 if that is not known
	u32 blocked_us; // how long it was blocked since a wait of it had a stack
	u32 waker_blocked_us; // and since a wake-up of it had one
	u32 places_since; // when `waits` and `wakers` were forgotten, in PLACES_PERIODs
	u64 python; // its state in a Python interpreter, when it had a stack; 0 for none
	u16 context; // where in its stack it left its CPU
	u8 is_blocked; // it left its CPU, not runnable
	u8 known_place; // the number of `place` in `waits`, 0: it is not there
	u8 known_waker; // that of `waker_place` in `wakers`
	u8 next_wait; // of `waits`, to be replaced
	u8 next_waker;
	u8 kind; // of its last wait, as watch.h has it; 0 unless waits are watched
	u32 waits[PLACES]; // where it waited when its stack was taken
	u32 wakers[PLACES]; // where it was woken from when the waker's stack was taken
	u64 kernel_lock; // the address of the lock in the kernel that it waits for; 0 for none
};
_Static_assert(sizeof(struct task_slot) == 128, "two cache lines, as in shared.rs");

// A stack that was written not long ago.
struct known_stack {
	u64 check; // its hash XOR `position`: two of different programs match nothing
	u64 position;
};

// The first word of a record: time in ns since the block's base, its type, and 29 bits more.
#define WORD(DELTA, TYPE, PAYLOAD) ((u64)(u32)(DELTA) | (u64)(TYPE) << 32 | (u64)(PAYLOAD) << 35)
#define LONG_WORD(DELTA, KIND, WORDS, FLAGS)                                                      \
	WORD(DELTA, LONG, (u32)(KIND) | (u32)(WORDS) << 5 | (u32)(FLAGS) << 15)
// A block holds no more time than its records can count.
#define MAX_DELTA_NS 0xffffffffull

enum type {
	END = 0, // nothing more in this block
	// `current` left. 22 bits: the thread that came on; 4 bits: the state it left in; 3 bits: the
	// place where it waits, if a stack was taken there: see `PLACE_OF_FLAGS`.
	SWITCH = 1,
	// `current` woke a thread. 22 bits: the thread; 2 bits: where from; 3 bits: the place in which
	// `current` is, if a stack was taken there when it woke the thread before.
	WAKING = 2,
	LONG = 3, // 5 bits: kind; 10 bits: its words, this one included; 14 bits: flags
};
#define SWITCH_PLACE_SHIFT 26
#define WAKING_PLACE_SHIFT 24

enum state {
	RUNNABLE,
	PREEMPTED,
	SLEEPING,
	DISK_SLEEP,
	IDLE,
	STOPPED,
	TRACED,
	PARKED,
	DEAD,
	THROTTLED, // runnable, but the quota of its control group is used up
};

// What a wake-up came from. Soft interrupts have the stack of interrupts, also those that a thread
// causes and runs itself, such as sending to this machine: see `BY_THREAD`.
enum source { FROM_THREAD, FROM_INTERRUPT, FROM_NEW_THREAD };

enum kind {
	STACK = 1, // frames of one stack, leaf first
	WAIT = 2, // why `current`, which just came on, had waited
	WAKER = 3, // where the last `WAKING` of this CPU came from
	SAMPLE = 4, // what `current` executed
	REPAIR = 5, // another thread was on the CPU than the last switch said: `tid`
	PRIORITY = 6, // the priority of `tid`, where it changed; in each PRIO_PERIOD if it is unusual
	DESCRIPTOR = 7, // what the thread of the last `WAIT` of this CPU waited for
	FACT = 8, // something that happened, see `enum fact`
};

// A user stack may end with frames of scripts (python.h).
// Flags of a stack: one bit, then how it ended.
#define USER_STACK 1
enum stack_end {
	ENDS_AT_START, // at the start of the thread
	ENDS_AT_UNREAD_MEMORY, // memory that is not present
	ENDS_WITHOUT_RULE, // code whose caller the unwind tables do not tell
	ENDS_TOO_DEEP,
	ENDS_OUTSIDE_CODE, // an address that is no known code: a frame pointer led astray
	ENDS_WITHOUT_TABLES, // by frame pointers only: the process was not known yet
};

struct stack_record {
	u64 word;
	u32 tgid; // the process whose addresses these are; 0 for the kernel's
	u32 frames;
	// u64 addresses[frames]
	// u64 before: the position of the definition of this stack before this one; 0 if that is gone
};

// A stack is named by the position of its definition in the same ring, in words, low 32 bits; 0 for
// none.

// Flags of waits, wake-ups and samples.
#define STACKS_OVER_BUDGET 1 // and none was taken at the same place before
#define BY_THREAD 2 // the wake-up came from a soft interrupt that the thread itself caused
#define FLAGS_OF_PLACE(PLACE) ((PLACE) << 2) // its number from now on; 0: it is not remembered
#define OWNER_AT_RETURN 32 // `owner` is not from the wait's start, but from when the thread was back

struct wait_record {
	u64 word;
	u64 left_ns; // when it left its CPU
	u32 kernel_stack;
	u32 user_stack;
	s32 syscall; // -1: none
	u32 owner; // of the lock, when the wait began; or see `OWNER_AT_RETURN`
	u64 arguments[2];
	u64 kernel_lock; // the address of the lock in the kernel that it waited for; 0 for none
};

struct waker_record {
	u64 word;
	u32 kernel_stack;
	u32 user_stack;
	u64 futex; // the address at which it woke the thread, if it did so by futex(2); else 0
};

struct sample_record {
	u64 word;
	u32 kernel_stack;
	u32 user_stack;
};

struct repair_record {
	u64 word;
	u32 tid;
	u32 unused;
};

// Flags of a priority: what it was before, from 1; 0 if that is not known.
#define PRIO_FLAGS(PRIO) ((PRIO) == UNKNOWN_PRIO ? 0 : (u32)(PRIO) + 2)
#define UNKNOWN_PRIO -2 // deadline threads have -1
struct priority_record {
	u64 word;
	u32 tid;
	s32 prio;
};

// A file, pipe or socket.
struct descriptor {
	u32 fd;
	u32 mode; // file type and permissions, as in stat(2)
	u64 inode; // of a socket, too
	u32 device; // of the file system, as the kernel encodes it: major << 20 | minor
	u32 family; // of a socket
	u64 peer_inode; // of a connected Unix socket: the other end, or who listens if it is not accepted
	u32 polled; // enum polled, if the call is poll(2) or select(2)
	u16 local_port, peer_port; // of a TCP or UDP socket
	u8 peer_address[16]; // IPv4 in the first four bytes
	char name[32]; // the file's name without its folder; empty for pipes and sockets
};

enum polled {
	POLLED_TO_READ = 1,
	POLLED_TO_WRITE = 2,
};

struct descriptor_record {
	u64 word;
	struct descriptor of;
};

// What happened. A fact belongs to a thread and may have its stack.
struct fact_head {
	u64 word; // flags: enum fact
	u32 tid;
	u32 kernel_stack;
	u32 user_stack;
	u32 unused;
};

enum fact {
	SIGNAL_SENT = 1, // by `tid`
	REQUEST_DONE, // to a disk, from `tid`
	INTERRUPT_RAN,
	SOFT_INTERRUPT_RAN,
	RECLAIMED, // `tid` looked for memory
	COMPACTED, // `tid` moved memory together
	DIRTIED, // `tid` wrote to the page cache
	FLOCK_REFUSED, // `tid` asked for a lock on a file, and did not want to wait for it
	POSIX_LOCK_REFUSED,
};

struct signal_sent {
	struct fact_head head;
	u32 signal;
	u32 tid;
};

struct request_done {
	struct fact_head head;
	u32 device;
	u32 operation; // REQ_OP_* and flags (include/linux/blk_types.h)
	u64 sector;
	u32 bytes;
	s32 status; // blk_status_t
	u64 queued_ns; // until the device got it
	u64 device_ns; // from then on
	u64 group; // control group, by its inode
};

struct handler_ran {
	struct fact_head head;
	u64 ns;
	u32 number; // of the interrupt, or of the soft interrupt
	char name[20];
};

struct memory_sought {
	struct fact_head head;
	u64 ns;
	u64 pages;
};

struct dirtied {
	struct fact_head head;
	u64 bytes;
	u32 device;
	u32 unused;
};

struct lock_refused {
	struct fact_head head;
	u32 holder; // the process that has the lock; 0: it is not known
	u32 device;
	u64 inode;
	char name[20]; // of the file
	u32 unused;
};
