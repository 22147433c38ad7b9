// A server that maps a buffer of its own for each request, every 20 ms. When the file of the first
// argument appears, another thread maps a big cache, and has the kernel fill it with pages at once
// (MAP_POPULATE). Meanwhile nobody can change the memory map of the process.
#include "beat.h"
#include <sys/mman.h>

enum { BUFFER = 1 << 20, SAMPLE = 128 << 20 };

static const char *flag;
static size_t cache_size;

static void *map(size_t size, int flags)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void unmap(void *memory, size_t size)
{
	if (munmap(memory, size))
		abort();
}

__attribute__((noinline)) static void use_buffer(void)
{
	char *buffer = (char *)map(BUFFER, 0);

	buffer[0] = 1;
	unmap(buffer, BUFFER);
	result++;
}

__attribute__((noinline)) static void load_cache(void)
{
	char *cache = (char *)map(cache_size, MAP_POPULATE);

	result += cache[0];
}

// As much memory as the kernel fills in about 1.2 s, but no more than there is.
static size_t size_for_a_second(void)
{
	long long from = now_ns(CLOCK_MONOTONIC);
	void *sample = map(SAMPLE, MAP_POPULATE);
	double size = SAMPLE * 1.2e9 / (now_ns(CLOCK_MONOTONIC) - from);
	double most = (double)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;

	unmap(sample, SAMPLE);
	if (most > 8e9)
		most = 8e9;
	return (size_t)(size < most ? size : most);
}

static void load_when_told(void)
{
	for (;;) {
		if (told(flag))
			load_cache();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	int loader;

	flag = argv[argc - 1];
	cache_size = size_for_a_second();
	loader = start_thread("loader", load_when_told);
	printf("{\"victim\": %d, \"loader\": %d}\n", gettid(), loader);
	fflush(stdout);
	rhythm(use_buffer);
}
