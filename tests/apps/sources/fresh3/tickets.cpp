// Main sells a ticket every 20 ms, for which it needs a mutex; it tries for 100 ms to get that, counts that it did
// not, and tries again (try_lock_for). When the file of the argument appears, the thread "printer" computes a
// poster with the mutex.
#include "../native/beat.h"
#include <chrono>
#include <mutex>

static const char *flag;
static std::timed_mutex lock;
static long tries;

__attribute__((noinline)) static void print_poster()
{
	compute(1.2);
}

__attribute__((noinline)) static void print_tickets()
{
	std::lock_guard<std::timed_mutex> guard(lock);

	if (told(flag))
		print_poster();
}

static void print_often()
{
	for (;;) {
		print_tickets();
		usleep(10000);
	}
}

__attribute__((noinline)) static void sell_ticket()
{
	while (!lock.try_lock_for(std::chrono::milliseconds(100)))
		tries++;
	result++;
	lock.unlock();
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	int printer = start_thread("printer", print_often);
	printf("{\"victim\": %d, \"printer\": %d}\n", gettid(), printer);
	fflush(stdout);
	rhythm(sell_ticket);
}
