// A table of prices under a read-write lock: a writer works every 20 ms. When the file of the first
// argument appears, two readers ask a slow service under the lock, one after the other, and each takes
// the lock again before the other one has released it: readers overtake a writer that waits.
#include "beat.h"

enum { QUERIES = 12, QUERY_US = 100000 };

static const char *flag;
static pthread_rwlock_t prices = PTHREAD_RWLOCK_INITIALIZER;
static int asked;

__attribute__((noinline)) static void set_price(void)
{
	pthread_rwlock_wrlock(&prices);
	result++;
	pthread_rwlock_unlock(&prices);
}

__attribute__((noinline)) static void answer_query(void)
{
	pthread_rwlock_rdlock(&prices);
	usleep(QUERY_US);
	pthread_rwlock_unlock(&prices);
}

static void first_reader(void)
{
	for (;;) {
		if (told(flag)) {
			__atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
			for (int n = 0; n < QUERIES; n++)
				answer_query();
		}
		usleep(10000);
	}
}

static void second_reader(void)
{
	for (;;) {
		if (__atomic_exchange_n(&asked, 0, __ATOMIC_ACQ_REL)) {
			usleep(QUERY_US / 2);
			for (int n = 0; n < QUERIES; n++)
				answer_query();
		}
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int first, second;

	flag = argv[argc - 1];
	first = start_thread("reader-1", first_reader);
	second = start_thread("reader-2", second_reader);
	printf("{\"victim\": %d, \"reader-1\": %d, \"reader-2\": %d}\n", gettid(), first, second);
	fflush(stdout);
	rhythm(set_price);
}
