// Main counts an order every 20 ms, with a mutex. When the file of the argument appears, the worker finds
// something odd while it has the mutex, and has the handler of a signal write everything down.
#include "../native/beat.h"
#include <signal.h>

static const char *flag;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void dump_state(int number)
{
	(void)number;
	compute(1.2);
}

__attribute__((noinline)) static void check_orders(void)
{
	pthread_mutex_lock(&lock);
	if (told(flag))
		raise(SIGUSR1);
	pthread_mutex_unlock(&lock);
}

static void check_often(void)
{
	for (;;) {
		check_orders();
		usleep(10000);
	}
}

__attribute__((noinline)) static void count_order(void)
{
	pthread_mutex_lock(&lock);
	result++;
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	signal(SIGUSR1, dump_state);
	int worker = start_thread("worker", check_often);
	printf("{\"victim\": %d, \"worker\": %d}\n", gettid(), worker);
	fflush(stdout);
	rhythm(count_order);
}
