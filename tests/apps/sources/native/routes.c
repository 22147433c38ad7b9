// A router's table behind a read-write lock that prefers writers: it is looked up every 20 ms and
// updated every 5 ms. When the file of the first argument appears, a third thread exports the table
// as a reader; then the writer waits for that, and every other reader waits behind the writer.
#include "beat.h"

enum { ROUTES = 1024 };

static pthread_rwlock_t lock;
static long routes[ROUTES];
static const char *flag;

__attribute__((noinline)) static void look_up_route(void)
{
	pthread_rwlock_rdlock(&lock);
	result += routes[result % ROUTES];
	pthread_rwlock_unlock(&lock);
}

__attribute__((noinline)) static void update_route(void)
{
	pthread_rwlock_wrlock(&lock);
	routes[result % ROUTES]++;
	pthread_rwlock_unlock(&lock);
}

__attribute__((noinline)) static void export_routes(void)
{
	pthread_rwlock_rdlock(&lock);
	compute(1.0);
	pthread_rwlock_unlock(&lock);
}

static void keep_updating(void)
{
	for (;;) {
		update_route();
		usleep(5000);
	}
}

static void export_when_told(void)
{
	for (;;) {
		if (told(flag))
			export_routes();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	pthread_rwlockattr_t kind;
	int updater, exporter;

	flag = argv[argc - 1];
	pthread_rwlockattr_init(&kind);
	pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&lock, &kind);
	updater = start_thread("updater", keep_updating);
	exporter = start_thread("exporter", export_when_told);
	printf("{\"victim\": %d, \"updater\": %d, \"exporter\": %d}\n", gettid(), updater, exporter);
	fflush(stdout);
	rhythm(look_up_route);
}
