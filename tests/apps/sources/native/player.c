// A player shows a frame every 20 ms; another process decodes them. Two frames fit into the memory
// that they share, and two semaphores count what is filled and what is free. One frame is expensive:
// the one that follows when the file of the first argument appears.
#include "beat.h"
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { SLOTS = 2 };

struct film {
	sem_t filled, free;
	long frames[SLOTS];
};

static struct film *film;
static const char *flag;
static long shown;

__attribute__((noinline)) static long decode_frame(long number, double seconds)
{
	compute(seconds);
	return number;
}

__attribute__((noinline)) static void decode_film(void)
{
	for (long number = 0;; number++) {
		while (sem_wait(&film->free))
			continue;
		film->frames[number % SLOTS] = decode_frame(number, told(flag) ? 1.1 : 0.001);
		sem_post(&film->filled);
	}
}

__attribute__((noinline)) static void show_frame(void)
{
	while (sem_wait(&film->filled))
		continue;
	if (film->frames[shown % SLOTS] != shown)
		abort();
	shown++;
	sem_post(&film->free);
}

int main(int argc, char **argv)
{
	int decoder;

	flag = argv[argc - 1];
	film = (struct film *)mmap(NULL, sizeof *film, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (film == MAP_FAILED)
		return 1;
	sem_init(&film->filled, 1, 0);
	sem_init(&film->free, 1, SLOTS);
	decoder = fork();
	if (decoder < 0)
		return 1;
	if (!decoder) {
		prctl(PR_SET_NAME, "decoder");
		decode_film();
	}
	printf("{\"victim\": %d, \"decoder\": %d}\n", gettid(), decoder);
	fflush(stdout);
	rhythm(show_frame);
}
