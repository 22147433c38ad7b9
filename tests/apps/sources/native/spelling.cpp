// An editor whose dictionary is a static variable of a function: whoever calls that first loads it, and
// all others wait until it is there. When the file of the first argument appears, a thread loads it;
// the editor's main thread, which works every 20 ms, wants to look a word up then.
#include "beat.h"
#include <atomic>
#include <vector>

static const char *flag;
static std::atomic<bool> checks{false};

class Dictionary {
public:
	Dictionary() : words(1 << 16)
	{
		checks = true;
		load_words();
	}

	bool has(unsigned long word) const
	{
		return words[word % words.size()] != 0;
	}

private:
	std::vector<unsigned long> words;

	__attribute__((noinline)) void load_words()
	{
		compute(1.1);
		words[result % words.size()] = result;
	}
};

__attribute__((noinline)) static const Dictionary &dictionary()
{
	static const Dictionary loaded;
	return loaded;
}

__attribute__((noinline)) static void check_spelling()
{
	if (checks && !dictionary().has(7))
		result = result + 1;
}

static void load_when_told()
{
	for (;;) {
		if (told(flag) && dictionary().has(7))
			result = result + 1;
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	int loader = start_thread("loader", load_when_told);
	printf("{\"victim\": %d, \"loader\": %d}\n", gettid(), loader);
	fflush(stdout);
	rhythm(check_spelling);
}
