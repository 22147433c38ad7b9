// A robot whose arm has the highest real-time priority, and takes a mutex every 20 ms. When the file
// of the first argument appears, a thread without priority takes that mutex for 10 ms of work, and at
// once a thread of a priority in between computes on the same CPU.
#include "beat.h"
#include <sched.h>
#include <semaphore.h>

static const char *flag;
static pthread_mutex_t arm = PTHREAD_MUTEX_INITIALIZER;
static sem_t obstacle;

static void stay_on_one_cpu(int priority)
{
	struct sched_param wanted = {.sched_priority = priority};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof one, &one) ||
	    (priority && sched_setscheduler(0, SCHED_FIFO, &wanted)))
		exit(1);
}

__attribute__((noinline)) static void move_arm(void)
{
	pthread_mutex_lock(&arm);
	result++;
	pthread_mutex_unlock(&arm);
}

__attribute__((noinline)) static void log_position(void)
{
	pthread_mutex_lock(&arm);
	sem_post(&obstacle);
	compute(0.01);
	pthread_mutex_unlock(&arm);
}

__attribute__((noinline)) static void plan_path(void)
{
	compute(0.8);
}

static void log_when_told(void)
{
	stay_on_one_cpu(0);
	for (;;) {
		if (told(flag))
			log_position();
		usleep(10000);
	}
}

static void plan_when_needed(void)
{
	stay_on_one_cpu(10);
	for (;;) {
		sem_wait(&obstacle);
		plan_path();
	}
}

int main(int argc, char **argv)
{
	int planner, logger;

	flag = argv[argc - 1];
	sem_init(&obstacle, 0, 0);
	logger = start_thread("logger", log_when_told);
	planner = start_thread("planner", plan_when_needed);
	stay_on_one_cpu(20);
	printf("{\"victim\": %d, \"planner\": %d, \"logger\": %d}\n", gettid(), planner, logger);
	fflush(stdout);
	rhythm(move_arm);
}
