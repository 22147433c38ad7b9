// Two processes of a simulation, which meet at a barrier (MPI) every 20 ms. When the file of the argument
// appears, the second one has far more to compute. The first one measures how long a step takes.
#include "../native/beat.h"
#include <mpi.h>

static const char *flag;
static int rank;

__attribute__((noinline)) static void simulate_storm(void)
{
	compute(1.1);
}

__attribute__((noinline)) static void next_step(void)
{
	if (rank == 1 && told(flag))
		simulate_storm();
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	int pids[2], mine = getpid();

	MPI_Init(&argc, &argv);
	flag = argv[argc - 1];
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Gather(&mine, 1, MPI_INT, pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		printf("{\"victim\": %d, \"late\": %d}\n", pids[0], pids[1]);
		fflush(stdout);
		rhythm(next_step);
	}
	for (;;) {
		next_step();
		usleep(PERIOD_US);
	}
}
