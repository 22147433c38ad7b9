// A program in a container, whose mkdir a supervisor in another process has to allow (seccomp's
// notifications). When the file of the last argument appears, the supervisor asks a slow policy.
#include "../native/beat.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char *folder, *flag;

__attribute__((noinline)) static void ask_policy(void)
{
	if (told(flag))
		usleep(1200000);
}

__attribute__((noinline)) static void supervise(int listener)
{
	struct seccomp_notif_resp answer;
	struct seccomp_notif question;

	for (;;) {
		memset(&question, 0, sizeof question);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question))
			exit(1);
		ask_policy();
		memset(&answer, 0, sizeof answer);
		answer.id = question.id;
		answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

__attribute__((noinline)) static void make_folder(void)
{
	if (syscall(SYS_mkdir, folder, 0700))
		abort();
	rmdir(folder);
}

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	int tell[2], listener;
	pid_t container = getpid(), supervisor;

	folder = argv[argc - 2];
	flag = argv[argc - 1];
	if (pipe(tell))
		abort();
	supervisor = fork();
	if (!supervisor) {
		int theirs, process;

		prctl(PR_SET_NAME, "supervisor");
		if (read(tell[0], &theirs, sizeof theirs) != sizeof theirs)
			exit(1);
		process = syscall(SYS_pidfd_open, container, 0);
		listener = syscall(SYS_pidfd_getfd, process, theirs, 0);
		if (listener < 0)
			exit(1);
		supervise(listener);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (listener < 0 || write(tell[1], &listener, sizeof listener) != sizeof listener)
		return 1;
	printf("{\"victim\": %d, \"supervisor\": %d}\n", gettid(), supervisor);
	fflush(stdout);
	rhythm(make_folder);
}
