// A service that loads as many MiB as its argument says, and crashes if there are any.
#include <stdlib.h>
#include <string.h>

static char *volatile catalogue;

__attribute__((noinline)) static void load_catalogue(size_t mebibytes)
{
	size_t size = mebibytes << 20;

	catalogue = malloc(size);
	if (!catalogue)
		return;
	memset(catalogue, 7, size);
	abort();
}

int main(int argc, char **argv)
{
	size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (mebibytes)
		load_catalogue(mebibytes);
	return 0;
}
