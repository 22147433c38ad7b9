/* A child asks for locks on a file that its parent has, by flock(2) and by fcntl(2), without waiting:
   refused FILE. Prints the parent's process id. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct flock whole = { .l_type = F_WRLCK };
	int file = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || flock(file, LOCK_EX) || fcntl(file, F_SETLK, &whole))
		return 1;
	if (fork()) {
		int status;
		wait(&status);
		printf("%d\n", getpid());
		return WEXITSTATUS(status);
	}
	file = open(argv[argc - 1], O_RDWR);
	/* Of refusals within a millisecond, one is noted. */
	for (int n = 0; n < 10; n++, usleep(100000))
		if (n % 2 ? !flock(file, LOCK_EX | LOCK_NB) : !fcntl(file, F_SETLK, &whole))
			return 2;
	return 0;
}
