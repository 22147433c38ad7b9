// A program that logs each payment, every 20 ms, with spdlog: asynchronously, so as not to wait for
// the log. Its queue is short, and who finds it full waits until a thread of spdlog has written
// something to the log, the named pipe of the first argument.
#include "beat.h"
#include <memory>
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <string>

static std::shared_ptr<spdlog::logger> audit;
static const std::string payment(16000, '.');

__attribute__((noinline)) static void record_payment()
{
	audit->info("paid {}", payment);
	result = result + 1;
}

int main(int argc, char **argv)
{
	spdlog::init_thread_pool(8, 1);
	audit = spdlog::create_async<spdlog::sinks::basic_file_sink_mt>("audit", argv[argc - 1]);
	audit->flush_on(spdlog::level::info);
	printf("{\"victim\": %d}\n", gettid());
	fflush(stdout);
	rhythm(record_payment);
}
