// A server that counts its orders under a spin lock, every 20 ms. When the file of the first argument
// appears, another thread waits for a slow disk with that lock, so that the first one spins.
#include "beat.h"

static const char *flag;
static pthread_spinlock_t lock;

__attribute__((noinline)) static void count_order(void)
{
	pthread_spin_lock(&lock);
	result++;
	pthread_spin_unlock(&lock);
}

__attribute__((noinline)) static void save_statistics(void)
{
	pthread_spin_lock(&lock);
	usleep(1200000);
	pthread_spin_unlock(&lock);
}

static void save_when_told(void)
{
	for (;;) {
		if (told(flag))
			save_statistics();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	int saver;

	flag = argv[argc - 1];
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	saver = start_thread("saver", save_when_told);
	printf("{\"victim\": %d, \"saver\": %d}\n", gettid(), saver);
	fflush(stdout);
	rhythm(count_order);
}
