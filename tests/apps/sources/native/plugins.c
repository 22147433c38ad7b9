// A program that takes plugins: for each request it looks its handler up by name. When the file of the
// second argument appears, another thread loads a plugin (plugin.c). While that is initialised, the
// dynamic loader's lock is held, so no name can be looked up.
#include "beat.h"
#include <dlfcn.h>

static const char *plugin, *flag;
static long handled;

void handle_request(void);

void handle_request(void)
{
	handled++;
}

__attribute__((noinline)) static void call_handler(void)
{
	void (*handler)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "handle_request");

	if (!handler)
		abort();
	handler();
}

__attribute__((noinline)) static void load_plugin(void)
{
	if (!dlopen(plugin, RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
}

static void load_when_told(void)
{
	for (;;) {
		if (told(flag))
			load_plugin();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	int loader;

	if (argc < 3)
		return 1;
	plugin = argv[1];
	flag = argv[2];
	loader = start_thread("loader", load_when_told);
	printf("{\"victim\": %d, \"loader\": %d}\n", gettid(), loader);
	fflush(stdout);
	rhythm(call_handler);
}
