// A cache of very many small objects on one heap, half of which have been freed. When the file of the
// last argument appears, a thread measures the heap (mallinfo2), as monitoring does in many a server; it
// has the heap's lock for as long as it counts all free pieces.
#include "../native/beat.h"
#include <malloc.h>
#include <string.h>

static const char *flag;

__attribute__((noinline)) static void measure_memory(void)
{
	result += mallinfo2().fordblks;
}

static void measure_when_told(void)
{
	for (;;) {
		if (told(flag))
			measure_memory();
		usleep(10000);
	}
}

__attribute__((noinline)) static void parse_request(void)
{
	for (int n = 0; n < 10; n++) {
		char *text = malloc(5000 + 16 * n);

		memset(text, n, 100);
		result += text[50];
		free(text);
	}
}

int main(int argc, char **argv)
{
	long count = atol(argv[argc - 2]) * 1000000;
	char **objects = malloc(count * sizeof *objects);
	int monitor;

	flag = argv[argc - 1];
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_MMAP_THRESHOLD, 1 << 25);
	for (long n = 0; n < count; n++) {
		objects[n] = malloc(200);
		objects[n][0] = 1;
	}
	// As caches do, not in the order of addresses.
	for (long n = 0; n < count / 2; n++)
		free(objects[2 * (n * 1000003 % (count / 2))]);
	// Whoever needs a bigger piece sorts those first, ten thousand at a time.
	for (long n = 0; n < count / 20000 + 10; n++)
		free(malloc(100000));
	monitor = start_thread("monitor", measure_when_told);
	printf("{\"victim\": %d, \"monitor\": %d}\n", gettid(), monitor);
	fflush(stdout);
	rhythm(parse_request);
}
