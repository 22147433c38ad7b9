// A storage server with big buffers that it has registered with the kernel for input and output
// (io_uring), so that they are pinned. When the file of the last argument appears, a thread starts a
// helper (fork): the kernel copies all that is pinned, and the memory map is locked meanwhile.
#include "../native/beat.h"
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const char *flag;

__attribute__((noinline)) static void start_helper(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void start_when_told(void)
{
	for (;;) {
		if (told(flag))
			start_helper();
		usleep(10000);
	}
}

__attribute__((noinline)) static void use_buffer(void)
{
	char *buffer = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	buffer[0] = 1;
	munmap(buffer, 65536);
}

int main(int argc, char **argv)
{
	enum { PART = 500 << 20, MOST = 16 };
	int parts = atoi(argv[argc - 2]), starter, failed;
	struct iovec buffers[MOST];
	struct io_uring ring;

	flag = argv[argc - 1];
	for (int n = 0; n < parts; n++) {
		buffers[n].iov_len = PART;
		buffers[n].iov_base = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(buffers[n].iov_base, PART, MADV_NOHUGEPAGE);
		memset(buffers[n].iov_base, n + 1, PART);
	}
	failed = io_uring_queue_init(8, &ring, 0);
	if (!failed)
		failed = io_uring_register_buffers(&ring, buffers, parts);
	if (failed) {
		fprintf(stderr, "io_uring: %s\n", strerror(-failed));
		return 1;
	}
	starter = start_thread("starter", start_when_told);
	printf("{\"victim\": %d, \"starter\": %d}\n", gettid(), starter);
	fflush(stdout);
	rhythm(use_buffer);
}
