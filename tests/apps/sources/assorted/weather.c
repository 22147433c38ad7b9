// A simulation in two threads, which meet after each step (pthread_barrier_wait). When the file of the
// argument appears, one step takes the thread "storm" a second.
#include "../native/beat.h"

static pthread_barrier_t begin, end;
static const char *flag;

__attribute__((noinline)) static void simulate_storm(void)
{
	compute(told(flag) ? 1.0 : 0.0002);
}

__attribute__((noinline)) static void simulate_sunshine(void)
{
	compute(0.0002);
}

static void storm(void)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		simulate_storm();
		pthread_barrier_wait(&end);
	}
}

__attribute__((noinline)) static void simulate_hour(void)
{
	pthread_barrier_wait(&begin);
	simulate_sunshine();
	pthread_barrier_wait(&end);
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	pthread_barrier_init(&begin, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	printf("{\"victim\": %d, \"storm\": %d}\n", gettid(), start_thread("storm", storm));
	fflush(stdout);
	rhythm(simulate_hour);
}
