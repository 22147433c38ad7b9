// A shop's database (LMDB) and two processes: a till records a sale every 20 ms; an importer changes
// the catalogue when the file of the second argument appears, and asks its supplier in the midst of
// the transaction. Only one process can write at a time.
#include "beat.h"
#include <lmdb.h>
#include <string.h>
#include <sys/prctl.h>

static MDB_env *shop;
static MDB_dbi articles;

static void check(int error)
{
	if (error) {
		fprintf(stderr, "%s\n", mdb_strerror(error));
		exit(1);
	}
}

static MDB_txn *begin(void)
{
	MDB_txn *transaction;

	check(mdb_txn_begin(shop, NULL, 0, &transaction));
	return transaction;
}

static void put(MDB_txn *transaction, int article)
{
	char text[100] = "article";
	MDB_val key = {sizeof article, &article}, value = {sizeof text, text};

	check(mdb_put(transaction, articles, &key, &value, 0));
}

static void open_shop(const char *folder)
{
	MDB_txn *transaction;

	check(mdb_env_create(&shop));
	check(mdb_env_set_mapsize(shop, 64 << 20));
	check(mdb_env_open(shop, folder, MDB_NOSYNC, 0600));
	transaction = begin();
	check(mdb_dbi_open(transaction, NULL, 0, &articles));
	check(mdb_txn_commit(transaction));
}

__attribute__((noinline)) static void record_sale(void)
{
	MDB_txn *transaction = begin();

	put(transaction, 7);
	check(mdb_txn_commit(transaction));
}

__attribute__((noinline)) static void ask_supplier(void)
{
	usleep(1200000);
	result++;
}

__attribute__((noinline)) static void import_catalogue(void)
{
	MDB_txn *transaction = begin();

	for (int article = 0; article < 1000; article++) {
		put(transaction, article);
		if (article == 500)
			ask_supplier();
	}
	check(mdb_txn_commit(transaction));
}

int main(int argc, char **argv)
{
	int importer;

	if (argc < 3)
		return 1;
	// A database must not be open across a fork.
	importer = fork();
	if (importer < 0)
		return 1;
	open_shop(argv[1]);
	if (!importer) {
		prctl(PR_SET_NAME, "importer");
		for (;;) {
			if (told(argv[2]))
				import_catalogue();
			usleep(10000);
		}
	}
	printf("{\"victim\": %d, \"importer\": %d}\n", gettid(), importer);
	fflush(stdout);
	rhythm(record_sale);
}
