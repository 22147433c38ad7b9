// Looks a word up in an index once, when a line is on standard input. Its thread "indexer" has the
// mutex by then, and makes the index anew, which takes it longer than anybody waits.
#include "beat.h"
#include <poll.h>

static pthread_mutex_t index_mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int told_so, has_mutex;

__attribute__((noinline)) static void rebuild_index(void)
{
	compute(30);
}

static void indexer(void)
{
	while (!told_so)
		usleep(5000);
	pthread_mutex_lock(&index_mutex);
	has_mutex = 1;
	rebuild_index();
	pthread_mutex_unlock(&index_mutex);
}

__attribute__((noinline)) static void look_up(void)
{
	pthread_mutex_lock(&index_mutex);
	result++;
	pthread_mutex_unlock(&index_mutex);
}

static void work_a_little(void)
{
	char line[400];
	FILE *users = fopen("/etc/passwd", "r");

	while (users && fgets(line, sizeof line, users))
		result += line[0];
	if (users)
		fclose(users);
	compute(rand() % 5 / 1000.0);
	usleep(rand() % 60000);
}

int main(void)
{
	struct pollfd input = {0, POLLIN, 0};
	long long from;
	int tid = start_thread("indexer", indexer);

	printf("{\"pid\": %d, \"tid\": %d, \"indexer\": %d}\n", getpid(), gettid(), tid);
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		work_a_little();
	told_so = 1;
	while (!has_mutex)
		work_a_little();
	from = now_ns(CLOCK_MONOTONIC);
	printf("{\"from\": %lld}\n", from);
	fflush(stdout);
	look_up();
	printf("{\"from\": %lld, \"to\": %lld}\n", from, now_ns(CLOCK_MONOTONIC));
	return 0;
}
