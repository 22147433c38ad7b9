// Main has a small picture resized every 20 ms by an executor of one thread, and waits for the result
// (std::future). When the file of the argument appears, the thread "importer" has a big one resized.
#include "../native/beat.h"
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

static const char *flag;

__attribute__((noinline)) static int resize_picture(double seconds)
{
	compute(seconds);
	return 1;
}

class Executor {
public:
	std::future<int> submit(double seconds)
	{
		std::packaged_task<int()> task([seconds] { return resize_picture(seconds); });
		std::future<int> picture = task.get_future();
		std::lock_guard<std::mutex> guard(lock);

		tasks.push_back(std::move(task));
		some.notify_one();
		return picture;
	}

	void run()
	{
		for (;;) {
			std::unique_lock<std::mutex> guard(lock);

			some.wait(guard, [this] { return !tasks.empty(); });
			std::packaged_task<int()> task = std::move(tasks.front());
			tasks.pop_front();
			guard.unlock();
			task();
		}
	}

private:
	std::mutex lock;
	std::condition_variable some;
	std::deque<std::packaged_task<int()>> tasks;
};

static Executor executor;

static void work()
{
	executor.run();
}

static void import_when_told()
{
	for (;;) {
		if (told(flag))
			executor.submit(1.1).get();
		usleep(10000);
	}
}

__attribute__((noinline)) static void show_picture()
{
	result += executor.submit(0.0002).get();
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	int worker = start_thread("executor", work);
	int importer = start_thread("importer", import_when_told);
	printf("{\"victim\": %d, \"executor\": %d, \"importer\": %d}\n", gettid(), worker, importer);
	fflush(stdout);
	rhythm(show_picture);
}
