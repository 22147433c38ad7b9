// A picture is rendered every 20 ms by two threads of OpenMP, half of its rows by each. When the file
// of the first argument appears, the last row is far more complex than all others, so that one thread
// computes and the other one waits for it at the end of the loop.
#include "beat.h"
#include <omp.h>

enum { ROWS = 32, THREADS = 2 };

static const char *flag;
static int complex_row;

__attribute__((noinline)) static void shade_row(int row)
{
	compute(row == complex_row ? 1.1 : 0.00005);
}

__attribute__((noinline)) static void render(void)
{
	complex_row = told(flag) ? ROWS - 1 : -1;
#pragma omp parallel for schedule(static) num_threads(THREADS)
	for (int row = 0; row < ROWS; row++)
		shade_row(row);
	result++;
}

int main(int argc, char **argv)
{
	int helper = 0;

	flag = argv[argc - 1];
#pragma omp parallel num_threads(THREADS)
	if (omp_get_thread_num() == THREADS - 1)
		helper = gettid();
	printf("{\"victim\": %d, \"helper\": %d}\n", gettid(), helper);
	fflush(stdout);
	rhythm(render);
}
