// A shop that sends a mail for each order, every 20 ms, in a thread of its own (std::async). It does not want
// to wait for that, but throws the future away, and that waits. When the file of the argument appears, a
// mail takes long; the id of its thread is then in the file of that name with ".tid" at its end.
#include "../native/beat.h"
#include <future>
#include <string>

static std::string flag;

__attribute__((noinline)) static void write_mail(double seconds)
{
	compute(seconds);
}

static void send_mail()
{
	if (!told(flag.c_str())) {
		write_mail(0.0002);
		return;
	}
	if (FILE *file = fopen((flag + ".tid").c_str(), "w")) {
		fprintf(file, "%d\n", gettid());
		fclose(file);
	}
	write_mail(1.2);
}

__attribute__((noinline)) static void take_order()
{
	(void)std::async(std::launch::async, send_mail);
}

int main(int argc, char **argv)
{
	flag = argv[argc - 1];
	printf("{\"victim\": %d}\n", gettid());
	fflush(stdout);
	rhythm(take_order);
}
