// A program that reads samples from the named pipe of the first argument with io_uring.
#include "beat.h"
#include <fcntl.h>
#include <liburing.h>

static struct io_uring ring;
static int sensor;

__attribute__((noinline)) static void read_sample(void)
{
	struct io_uring_cqe *done;
	char sample[64];

	io_uring_prep_read(io_uring_get_sqe(&ring), sensor, sample, sizeof sample, 0);
	io_uring_submit(&ring);
	if (io_uring_wait_cqe(&ring, &done) || done->res <= 0)
		exit(1);
	io_uring_cqe_seen(&ring, done);
}

int main(int argc, char **argv)
{
	sensor = open(argv[argc - 1], O_RDONLY);
	if (io_uring_queue_init(8, &ring, 0))
		exit(1);
	printf("{\"victim\": %d}\n", gettid());
	fflush(stdout);
	rhythm(read_sample);
}
