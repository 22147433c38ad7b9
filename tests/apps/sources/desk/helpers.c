// A program with a cache, which starts a helper (fork) every 20 ms. The cache has its lock taken before a
// fork, so that the child finds it in order (pthread_atfork). When the file of the argument appears, the
// thread "cleaner" cleans the cache with that lock.
#include "../native/beat.h"
#include <sys/wait.h>

static const char *flag;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_cache(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_cache(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void clean_cache(void)
{
	pthread_mutex_lock(&lock);
	compute(1.2);
	pthread_mutex_unlock(&lock);
}

static void clean_when_told(void)
{
	for (;;) {
		if (told(flag))
			clean_cache();
		usleep(10000);
	}
}

__attribute__((noinline)) static void start_helper(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	int cleaner;

	flag = argv[argc - 1];
	pthread_atfork(lock_cache, unlock_cache, unlock_cache);
	cleaner = start_thread("cleaner", clean_when_told);
	printf("{\"victim\": %d, \"cleaner\": %d}\n", gettid(), cleaner);
	fflush(stdout);
	rhythm(start_helper);
}
