// A thread reads commands from the named pipe of the first argument, line by line. The program saves its
// state every 20 ms, and flushes all its files then.
#include "beat.h"

static FILE *commands, *state;

__attribute__((noinline)) static void read_commands(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, commands) > 0) {
		result++;
		// Moves the wheels.
		usleep(3000);
	}
}

static void follow(void)
{
	for (;;)
		read_commands();
}

__attribute__((noinline)) static void save_state(void)
{
	rewind(state);
	fprintf(state, "%lu\n", result);
	fflush(NULL);
}

int main(int argc, char **argv)
{
	int reader;

	commands = fopen(argv[argc - 1], "r");
	state = tmpfile();
	if (!commands || !state)
		return 1;
	reader = start_thread("commands", follow);
	printf("{\"victim\": %d, \"commands\": %d}\n", gettid(), reader);
	fflush(stdout);
	rhythm(save_state);
}
