// What the programs of this folder have in common: a clock, a flag of the harness, work, and a rhythm
// that measures itself.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_US = 20000, SLOW_NS = 100000000 };

static volatile unsigned long result;

static inline long long now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// Whether the harness has made the file since the last call.
static inline int told(const char *flag)
{
	return !unlink(flag);
}

// Computes for so many seconds of a CPU. It is a part of whoever calls it.
static inline __attribute__((always_inline)) void compute(double seconds)
{
	long long end = now_ns(CLOCK_THREAD_CPUTIME_ID) + (long long)(seconds * 1e9);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 10000; i++)
			result = result * 6364136223846793005UL + 1442695040888963407UL;
}

struct starting {
	const char *name;
	void (*body)(void);
	int tid;
};

static inline void *run_thread(void *argument)
{
	struct starting *starting = (struct starting *)argument;
	void (*body)(void) = starting->body;

	pthread_setname_np(pthread_self(), starting->name);
	__atomic_store_n(&starting->tid, gettid(), __ATOMIC_RELEASE);
	body();
	return NULL;
}

// Starts a thread; returns its id.
static inline int start_thread(const char *name, void (*body)(void))
{
	struct starting *starting = (struct starting *)calloc(1, sizeof *starting);
	pthread_t thread;

	starting->name = name;
	starting->body = body;
	if (pthread_create(&thread, NULL, run_thread, starting))
		abort();
	while (!__atomic_load_n(&starting->tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	return starting->tid;
}

// Repeats the operation every 20 ms, and prints when it was slow.
static inline void rhythm(void (*operation)(void))
{
	for (;;) {
		long long from = now_ns(CLOCK_MONOTONIC), to;

		operation();
		to = now_ns(CLOCK_MONOTONIC);
		if (to - from >= SLOW_NS) {
			printf("{\"from\": %lld, \"to\": %lld}\n", from, to);
			fflush(stdout);
		}
		usleep(PERIOD_US);
	}
}
