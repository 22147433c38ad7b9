// A shelf in a file that two processes have mapped, with a mutex that survives the death of who has it (robust).
// Main sells something every 20 ms. When the file of the second argument appears, the process "stocktaker" asks a
// slow scale while it has the mutex. The first argument is the shelf's file.
#include "../native/beat.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

struct shelf {
	pthread_mutex_t lock;
	long articles;
};

static struct shelf *shelf;
static const char *flag;

static void take(void)
{
	if (pthread_mutex_lock(&shelf->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&shelf->lock);
}

__attribute__((noinline)) static void weigh_articles(void)
{
	usleep(1200000);
}

__attribute__((noinline)) static void take_stock(void)
{
	take();
	if (told(flag))
		weigh_articles();
	pthread_mutex_unlock(&shelf->lock);
}

__attribute__((noinline)) static void sell_article(void)
{
	take();
	shelf->articles--;
	pthread_mutex_unlock(&shelf->lock);
}

static void open_shelf(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0600);
	pthread_mutexattr_t kind;

	if (file < 0 || ftruncate(file, sizeof *shelf))
		abort();
	shelf = (struct shelf *)mmap(NULL, sizeof *shelf, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shelf == MAP_FAILED)
		abort();
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shelf->lock, &kind);
}

int main(int argc, char **argv)
{
	int stocktaker;

	if (argc != 3)
		return 1;
	flag = argv[2];
	open_shelf(argv[1]);
	stocktaker = fork();
	if (stocktaker < 0)
		return 1;
	if (!stocktaker) {
		prctl(PR_SET_NAME, "stocktaker");
		for (;;) {
			take_stock();
			usleep(10000);
		}
	}
	printf("{\"victim\": %d, \"stocktaker\": %d}\n", gettid(), stocktaker);
	fflush(stdout);
	rhythm(sell_article);
}
