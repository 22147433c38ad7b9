// Main asks a mixer thread for sound over an eventfd every 20 ms, and waits for it at another eventfd
// (poll). When the file of the argument appears, one block takes the mixer a second.
#include "../native/beat.h"
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>

static int wanted, mixed;
static const char *flag;

__attribute__((noinline)) static void mix_samples(void)
{
	compute(told(flag) ? 1.0 : 0.0001);
}

static void mix(void)
{
	uint64_t count;

	for (;;) {
		if (read(wanted, &count, sizeof count) != sizeof count)
			abort();
		mix_samples();
		count = 1;
		if (write(mixed, &count, sizeof count) != sizeof count)
			abort();
	}
}

__attribute__((noinline)) static void play_block(void)
{
	struct pollfd wait = { .fd = mixed, .events = POLLIN };
	uint64_t count = 1;

	if (write(wanted, &count, sizeof count) != sizeof count)
		abort();
	poll(&wait, 1, -1);
	if (read(mixed, &count, sizeof count) != sizeof count)
		abort();
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	wanted = eventfd(0, 0);
	mixed = eventfd(0, EFD_NONBLOCK);
	printf("{\"victim\": %d, \"mixer\": %d}\n", gettid(), start_thread("mixer", mix));
	fflush(stdout);
	rhythm(play_block);
}
