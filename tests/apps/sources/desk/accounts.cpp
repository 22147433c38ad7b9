// Two accounts, each with a mutex. When a line is on standard input, main transfers from the first one to
// the second one, and the thread "interest" the other way round, at the same time: a deadlock.
#include "../native/beat.h"
#include <mutex>
#include <poll.h>

struct account {
	std::mutex mutex;
	long amount = 100;
};

static account savings, wages;
static volatile int told_so, has_one;

__attribute__((noinline)) static void transfer(account &from, account &to)
{
	std::lock_guard<std::mutex> first(from.mutex);
	compute(0.05);
	std::lock_guard<std::mutex> second(to.mutex);
	from.amount--;
	to.amount++;
}

__attribute__((noinline)) static void pay_interest()
{
	std::lock_guard<std::mutex> first(wages.mutex);
	has_one = 1;
	compute(0.3);
	std::lock_guard<std::mutex> second(savings.mutex);
	wages.amount--;
	savings.amount++;
}

static void interest()
{
	while (!told_so)
		usleep(5000);
	pay_interest();
}

static void work_a_little()
{
	compute(rand() % 5 / 1000.0);
	usleep(rand() % 60000);
}

int main()
{
	struct pollfd input = {0, POLLIN, 0};
	int tid = start_thread("interest", interest);

	printf("{\"pid\": %d, \"tid\": %d, \"interest\": %d}\n", getpid(), gettid(), tid);
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		work_a_little();
	told_so = 1;
	while (!has_one)
		usleep(1000);
	long long from = now_ns(CLOCK_MONOTONIC);
	printf("{\"from\": %lld}\n", from);
	fflush(stdout);
	transfer(savings, wages);
	printf("{\"from\": %lld, \"to\": %lld}\n", from, now_ns(CLOCK_MONOTONIC));
}
