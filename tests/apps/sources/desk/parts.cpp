// Twenty threads that each need the number of the current film now and then, and wait while there is none
// (std::atomic::wait). When the file of the argument appears, the thread "loader" takes the number away,
// loads another film, and tells all.
#include "../native/beat.h"
#include <atomic>

enum { SHOWS = 20 };

static const char *flag;
static std::atomic<int> film{1};

__attribute__((noinline)) static void load_film()
{
	film = 0;
	compute(1.2);
	film = 2;
	film.notify_all();
}

__attribute__((noinline)) static void show_film()
{
	film.wait(0);
	__atomic_fetch_add(&result, film, __ATOMIC_RELAXED);
}

static void load_when_told()
{
	for (;;) {
		if (told(flag))
			load_film();
		usleep(10000);
	}
}

static void show()
{
	unsigned seed = gettid();

	for (;;) {
		usleep(50000 + rand_r(&seed) % 200000);
		long long from = now_ns(CLOCK_MONOTONIC);
		show_film();
		long long to = now_ns(CLOCK_MONOTONIC);
		if (to - from >= SLOW_NS) {
			printf("{\"from\": %lld, \"to\": %lld, \"tid\": %d}\n", from, to, gettid());
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	for (int n = 0; n < SHOWS; n++)
		start_thread("show", show);
	int loader = start_thread("loader", load_when_told);
	printf("{\"loader\": %d}\n", loader);
	fflush(stdout);
	pause();
}
