// A virtual machine that has moved here, and whose memory follows page by page (userfaultfd): every
// 20 ms it needs a page, and another thread fetches that from the other host. When the file of the
// first argument appears, the other host is slow.
#include "beat.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

static const char *flag;
static volatile char *memory;
static int faults;

__attribute__((noinline)) static void run_guest(void)
{
	madvise((void *)memory, PAGE, MADV_DONTNEED);
	memory[0]++;
}

__attribute__((noinline)) static void fetch_page(char *page)
{
	memset(page, 1, PAGE);
	if (told(flag))
		usleep(1200000);
}

static void serve_faults(void)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg message;

	while (read(faults, &message, sizeof message) == sizeof message) {
		struct uffdio_copy copy = {.dst = message.arg.pagefault.address & -PAGE,
					   .src = (unsigned long)page, .len = PAGE};

		fetch_page(page);
		ioctl(faults, UFFDIO_COPY, &copy);
	}
}

static void begin_migration(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	area.range.start = (unsigned long)memory;
	area.range.len = PAGE;
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &area))
		exit(1);
}

int main(int argc, char **argv)
{
	int pager;

	flag = argv[argc - 1];
	begin_migration();
	pager = start_thread("pager", serve_faults);
	printf("{\"victim\": %d, \"pager\": %d}\n", gettid(), pager);
	fflush(stdout);
	rhythm(run_guest);
}
