// A controller whose mutex inherits priorities (PTHREAD_PRIO_INHERIT), so that the kernel has it. When
// the file of the argument appears, the thread "sensor" asks a slow sensor while it has the mutex.
#include "../native/beat.h"

static pthread_mutex_t lock;
static const char *flag;

__attribute__((noinline)) static void read_pressure(void)
{
	pthread_mutex_lock(&lock);
	usleep(told(flag) ? 1200000 : 100);
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void move_valve(void)
{
	pthread_mutex_lock(&lock);
	result++;
	pthread_mutex_unlock(&lock);
}

static void sensor(void)
{
	for (;;) {
		read_pressure();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t kind;

	flag = argv[argc - 1];
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &kind);
	printf("{\"victim\": %d, \"sensor\": %d}\n", gettid(), start_thread("sensor", sensor));
	fflush(stdout);
	rhythm(move_valve);
}
