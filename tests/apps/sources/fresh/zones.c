// Main prints the time every 20 ms (localtime). When the file of the second argument appears, the thread
// "settings" changes the time zone to that of the first argument, which is a file that is slow to read.
#include "../native/beat.h"

static const char *flag, *zone;

__attribute__((noinline)) static void change_zone(void)
{
	setenv("TZ", zone, 1);
	tzset();
}

static void change_when_told(void)
{
	for (;;) {
		if (told(flag))
			change_zone();
		usleep(10000);
	}
}

__attribute__((noinline)) static void print_time(void)
{
	time_t now = time(NULL);

	result += localtime(&now)->tm_min;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 1;
	zone = argv[1];
	flag = argv[2];
	int settings = start_thread("settings", change_when_told);
	printf("{\"victim\": %d, \"settings\": %d}\n", gettid(), settings);
	fflush(stdout);
	rhythm(print_time);
}
