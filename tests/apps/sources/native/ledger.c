// A ledger in Berkeley DB, in the folder of the first argument: a process posts an entry every 20 ms.
// When the file of the second argument appears, another process imports entries, and asks a bank far
// away before it commits.
#include "beat.h"
#include <db.h>
#include <string.h>
#include <sys/prctl.h>

static const char *flag;
static DB_ENV *environment;
static DB *ledger;

static void must(int error)
{
	if (error) {
		fprintf(stderr, "%s\n", db_strerror(error));
		exit(1);
	}
}

static void open_ledger(const char *folder)
{
	u_int32_t parts = DB_INIT_TXN | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL;

	must(db_env_create(&environment, 0));
	must(environment->open(environment, folder, DB_CREATE | parts, 0600));
	must(environment->set_flags(environment, DB_TXN_NOSYNC, 1));
	must(db_create(&ledger, environment, 0));
	must(ledger->open(ledger, NULL, "ledger.db", NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT, 0600));
}

static void put(DB_TXN *transaction, const char *name)
{
	DBT key = {.data = (void *)name, .size = strlen(name)};

	must(ledger->put(ledger, transaction, &key, &key, 0));
}

__attribute__((noinline)) static void post_entry(void)
{
	DB_TXN *transaction;

	must(environment->txn_begin(environment, NULL, &transaction, 0));
	put(transaction, "sale");
	must(transaction->commit(transaction, 0));
}

__attribute__((noinline)) static void import_entries(void)
{
	DB_TXN *transaction;

	must(environment->txn_begin(environment, NULL, &transaction, 0));
	put(transaction, "payment");
	usleep(1200000);
	must(transaction->commit(transaction, 0));
}

static void import_when_told(const char *folder)
{
	prctl(PR_SET_NAME, "importer");
	open_ledger(folder);
	for (;;) {
		if (told(flag))
			import_entries();
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	const char *folder = argv[argc - 2];
	int importer;

	flag = argv[argc - 1];
	if (argc == 4)
		import_when_told(folder);
	open_ledger(folder);
	post_entry();
	importer = fork();
	if (!importer) {
		execl("/proc/self/exe", argv[0], "import", folder, flag, NULL);
		exit(1);
	}
	printf("{\"victim\": %d, \"importer\": %d}\n", gettid(), importer);
	fflush(stdout);
	rhythm(post_entry);
}
