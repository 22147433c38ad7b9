/* Threads that wait for a mutex which passes from the one that held it for long to another, and
   from that one to them: holders queue | thief | nested [robust | inheriting]. Returns 3 if another
   thread got the mutex than was planned. Or one that waits for it again and again: often. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD_MS 300
#define PASSED_ON_MS 20
#define OTHERWISE 3
#define ROUNDS 60
#define ROUND_MS 4

static pthread_mutex_t mutex;
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
/* Who got `mutex`, in this order. */
static const char *volatile took[8];
static int volatile turns;
static volatile int thief_may_try;

/* Keeps what it has. It sleeps, because on a busy machine others take a CPU from who computes. */
static void keep(long ms)
{
	usleep(ms * 1000);
}

static void take(const char *name)
{
	pthread_mutex_lock(&mutex);
	took[turns++] = name;
}

static volatile long tid_of_last;

/* Starts a thread, and returns when it sleeps. */
static pthread_t start_and_wait(const char *name, void *(*run)(void *))
{
	pthread_t thread;
	char path[64], line[256], state = 0;
	tid_of_last = 0;
	pthread_create(&thread, 0, run, (void *)name);
	for (int asleep = 0; asleep < 3; usleep(1000)) {
		if (!tid_of_last)
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid_of_last);
		FILE *stat = fopen(path, "r");
		char *end = stat && fgets(line, sizeof line, stat) ? strrchr(line, ')') : 0;
		state = end ? end[2] : 0;
		asleep = state == 'S' ? asleep + 1 : 0;
		if (stat)
			fclose(stat);
	}
	return thread;
}

static void begin(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	tid_of_last = syscall(SYS_gettid);
}

/* Waits for the mutex, and keeps it for a moment. */
static void *wait_and_pass_on(void *name)
{
	begin(name);
	take(name);
	keep(PASSED_ON_MS);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Looks for the mutex without sleeping, and takes it past those that wait. */
static void *steal(void *name)
{
	pthread_setname_np(pthread_self(), name);
	while (!thief_may_try || pthread_mutex_trylock(&mutex))
		;
	took[turns++] = name;
	keep(PASSED_ON_MS);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Has the mutex, and waits for another one. */
static void *wait_inside(void *name)
{
	begin(name);
	take(name);
	pthread_mutex_lock(&inner);
	keep(PASSED_ON_MS);
	pthread_mutex_unlock(&inner);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* The rounds in which the holder has the mutex are odd. */
static volatile int round_now;

static void *wait_often(void *name)
{
	begin(name);
	for (int round = 1; round < 2 * ROUNDS; round += 2) {
		while (round_now != round)
			usleep(100);
		pthread_mutex_lock(&mutex);
		round_now = round + 1;
		pthread_mutex_unlock(&mutex);
	}
	return 0;
}

static void hold_often(void)
{
	for (int round = 1; round < 2 * ROUNDS; round += 2) {
		pthread_mutex_lock(&mutex);
		round_now = round;
		keep(ROUND_MS);
		pthread_mutex_unlock(&mutex);
		while (round_now == round)
			usleep(100);
	}
}

/* The mutex that all want, of this kind. */
static void make_mutex(const char *kind)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	if (!strcmp(kind, "robust"))
		pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (!strcmp(kind, "inheriting"))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attributes);
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	int count = 0;
	make_mutex(argc > 2 ? argv[2] : "");
	const char *mode = argc > 1 ? argv[1] : "", *last = "other";
	/* Its unwind tables are there before it waits. */
	usleep(2500000);
	pthread_setname_np(pthread_self(), "holder");
	if (!strcmp(mode, "often")) {
		pthread_t hungry;
		pthread_create(&hungry, 0, wait_often, "hungry");
		hold_often();
		return pthread_join(hungry, 0);
	}
	if (!strcmp(mode, "nested")) {
		pthread_mutex_lock(&inner);
		threads[count++] = start_and_wait("other", wait_inside);
		threads[count++] = start_and_wait("hungry", wait_and_pass_on);
		keep(HELD_MS);
		pthread_mutex_unlock(&inner);
	} else {
		take("holder");
		threads[count++] = start_and_wait("other", wait_and_pass_on);
		threads[count++] = start_and_wait("hungry", wait_and_pass_on);
		if (!strcmp(mode, "thief")) {
			last = "thief";
			pthread_create(&threads[count++], 0, steal, (void *)last);
		}
		keep(HELD_MS);
		thief_may_try = 1;
		pthread_mutex_unlock(&mutex);
	}
	while (count)
		pthread_join(threads[--count], 0);
	/* Whoever had it before `hungry` ended its wait, which was one. */
	int at = strcmp(mode, "nested") ? 2 : 1;
	return !strcmp(took[at - 1], last) && !strcmp(took[at], "hungry") ? 0 : OTHERWISE;
}
