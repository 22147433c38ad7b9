// A cache behind a read-write lock: its writer works every 20 ms, its reader searches it when the
// file of the first argument appears. Prints the ids of both threads, and when the writer waited.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t cache = PTHREAD_RWLOCK_INITIALIZER;
static volatile unsigned long found;
static const char *flag;
static int reader_id;

static long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((noinline)) static void search_index(void)
{
	long long end = now(CLOCK_THREAD_CPUTIME_ID) + 900000000;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 100000; i++)
			found = found * 6364136223846793005UL + 1442695040888963407UL;
}

static void *reader(void *unused)
{
	__atomic_store_n(&reader_id, gettid(), __ATOMIC_RELEASE);
	for (;;) {
		if (!unlink(flag)) {
			pthread_rwlock_rdlock(&cache);
			search_index();
			pthread_rwlock_unlock(&cache);
		}
		usleep(10000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	flag = argv[argc - 1];
	pthread_create(&thread, NULL, reader, NULL);
	while (!__atomic_load_n(&reader_id, __ATOMIC_ACQUIRE))
		usleep(1000);
	printf("%d %d\n", gettid(), reader_id);
	fflush(stdout);
	for (;;) {
		long long began = now(CLOCK_MONOTONIC), ended;

		pthread_rwlock_wrlock(&cache);
		pthread_rwlock_unlock(&cache);
		ended = now(CLOCK_MONOTONIC);
		if (ended - began > 100000000) {
			printf("%lld %lld\n", began, ended);
			fflush(stdout);
		}
		usleep(20000);
	}
}
