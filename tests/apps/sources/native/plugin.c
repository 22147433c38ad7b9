// A plugin that builds its tables as soon as it is loaded.
#include "beat.h"

__attribute__((constructor, noinline)) static void build_tables(void)
{
	compute(1.1);
	result++;
}
