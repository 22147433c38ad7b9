// A meter's readings in RocksDB, in the folder of the first argument: a batch is stored every 20 ms. A
// compaction filter drops what is too old. When the file of the second argument appears, it asks a
// service for the tariff first; writes wait once too many files wait for a compaction.
#include "beat.h"
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

static const char *flag;
static rocksdb::DB *readings;

__attribute__((noinline)) static void ask_tariff()
{
	usleep(1400000);
	result++;
}

class KeepTariff : public rocksdb::CompactionFilter {
public:
	bool Filter(int, const rocksdb::Slice &, const rocksdb::Slice &, std::string *, bool *) const override
	{
		if (told(flag))
			ask_tariff();
		return false;
	}
	const char *Name() const override { return "KeepTariff"; }
};

__attribute__((noinline)) static void store_reading()
{
	static unsigned long number;
	rocksdb::WriteOptions options;
	std::string value(8192, 'x');

	options.disableWAL = true;
	for (int n = 0; n < 8; n++) {
		for (char &letter : value)
			letter = number = number * 6364136223846793005UL + 1442695040888963407UL >> 3;
		readings->Put(options, "meter-" + std::to_string(number % 64), value);
	}
}

int main(int, char **argv)
{
	static KeepTariff filter;
	rocksdb::Options options;

	flag = argv[2];
	options.create_if_missing = true;
	options.compaction_filter = &filter;
	options.write_buffer_size = 64 << 10;
	options.max_write_buffer_number = 2;
	options.level0_file_num_compaction_trigger = 2;
	options.level0_slowdown_writes_trigger = 6;
	options.level0_stop_writes_trigger = 6;
	options.max_background_jobs = 2;
	options.compression = rocksdb::kNoCompression;
	if (!rocksdb::DB::Open(options, argv[1], &readings).ok())
		return 1;
	for (int n = 0; n < 100; n++)
		store_reading();
	printf("{\"victim\": %d}\n", gettid());
	fflush(stdout);
	rhythm(store_reading);
}
