// Main has another process, "painter", paint a page every 20 ms. The two speak with signals: SIGUSR1 says what is to
// be done, and SIGUSR2 that it is done; both wait for them in sigwait. When the file of the argument appears, a page
// takes long.
#include "../native/beat.h"
#include <signal.h>
#include <sys/prctl.h>

static const char *flag;
static int painter;

static void wait_for_signal(int number)
{
	sigset_t only;
	int signal;

	sigemptyset(&only);
	sigaddset(&only, number);
	sigwait(&only, &signal);
}

__attribute__((noinline)) static void paint_page(double seconds)
{
	compute(seconds);
}

static void paint_when_told(void)
{
	for (;;) {
		wait_for_signal(SIGUSR1);
		paint_page(told(flag) ? 1.2 : 0.0005);
		kill(getppid(), SIGUSR2);
	}
}

__attribute__((noinline)) static void show_page(void)
{
	kill(painter, SIGUSR1);
	wait_for_signal(SIGUSR2);
}

int main(int argc, char **argv)
{
	sigset_t both;

	flag = argv[argc - 1];
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	sigprocmask(SIG_BLOCK, &both, NULL);
	painter = fork();
	if (painter < 0)
		return 1;
	if (!painter) {
		prctl(PR_SET_NAME, "painter");
		paint_when_told();
	}
	printf("{\"victim\": %d, \"painter\": %d}\n", gettid(), painter);
	fflush(stdout);
	rhythm(show_page);
}
