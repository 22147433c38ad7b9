/* Waits at many wait places of the kernel at once, each in a thread or child named after it.
 *
 * A wait that is not possible here prints "SKIPPED name: reason". When all others have been asleep for
 * HOLD_MS, the process exits; it prints "WAITED name tid" for each. The wait of a thread is its longest
 * sleep. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <linux/netlink.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define HOLD_MS 400
#define MAX_WAITS 64

static char folder[PATH_MAX];
static struct { const char *name; volatile int tid, gave_up; } waits[MAX_WAITS];
static volatile int count, is_over;

static void milliseconds(int ms) { usleep(ms * 1000); }

/* Reports why the wait of this thread is not possible. */
static void skip(const char *name, const char *why) {
    if (!is_over) printf("SKIPPED %s: %s: %s\n", name, why, strerror(errno));
    for (int i = 0; i < count; i++)
        if (!strcmp(waits[i].name, name)) waits[i].gave_up = 1;
    for (;;) pause();
}
#define NEED(what) do { if ((long)(what) < 0) skip(name, #what); } while (0)

struct start { const char *name; void (*wait)(const char *); int number; };

static void *begin(void *argument) {
    struct start start = *(struct start *)argument;
    prctl(PR_SET_NAME, start.name);
    waits[start.number].tid = syscall(SYS_gettid);
    start.wait(start.name);
    /* The call should not have returned. */
    errno = 0;
    skip(start.name, "it did not wait");
    return 0;
}

static void run(const char *name, void (*wait)(const char *)) {
    static struct start starts[MAX_WAITS];
    pthread_t thread;
    starts[count] = (struct start){name, wait, count};
    waits[count].name = name;
    count++;
    if (pthread_create(&thread, 0, begin, &starts[count - 1])) abort();
}

/* Starts a child for one wait; `pid` counts as its thread. */
static void run_child(const char *name, void (*child)(void)) {
    int number = count;
    waits[number].name = name;
    count++;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        child();
        _exit(0);
    }
    waits[number].tid = pid;
}

static const char *path_of(const char *name) {
    static __thread char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/%s", folder, name);
    return path;
}

static char block[1 << 16];
static void write_forever(int fd) { while (write(fd, block, sizeof block) > 0) {} }
static void read_forever(int fd) { while (read(fd, block, sizeof block) > 0) {} }

static void pipe_write(const char *name) { int p[2]; NEED(pipe(p)); write_forever(p[1]); }
static void pipe_read(const char *name) { int p[2]; NEED(pipe(p)); read_forever(p[0]); }
static void fifo_open(const char *name) { const char *path = path_of("fifo"); NEED(mkfifo(path, 0600)); open(path, O_RDONLY); }

static void pair_write(const char *name, int type) { int s[2]; NEED(socketpair(AF_UNIX, type, 0, s)); while (send(s[0], block, 4096, 0) > 0) {} }
static void unix_send(const char *name) { pair_write(name, SOCK_STREAM); }
static void unix_dgram_send(const char *name) { pair_write(name, SOCK_DGRAM); }
static void unix_recv(const char *name) { int s[2]; NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s)); read_forever(s[0]); }
static int unix_listener(const char *name, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path + 1, 90, "wait-places-%d-%s", getpid(), name);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    NEED(bind(s, (void *)address, sizeof *address));
    NEED(listen(s, 0));
    return s;
}
static void unix_accept(const char *name) { struct sockaddr_un a; accept(unix_listener(name, &a), 0, 0); }
static void unix_connect(const char *name) {
    struct sockaddr_un a;
    unix_listener(name, &a);
    while (connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, sizeof a) == 0) {}
}

static int tcp_listener(const char *name, struct sockaddr_in *address) {
    socklen_t len = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    NEED(bind(s, (void *)address, len));
    NEED(listen(s, 0));
    NEED(getsockname(s, (void *)address, &len));
    return s;
}
static int tcp_client(const char *name) {
    struct sockaddr_in a;
    tcp_listener(name, &a);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    NEED(connect(s, (void *)&a, sizeof a));
    return s;
}
static void tcp_accept(const char *name) { struct sockaddr_in a; accept(tcp_listener(name, &a), 0, 0); }
static void tcp_recv(const char *name) { read_forever(tcp_client(name)); }
static void tcp_send(const char *name) { write_forever(tcp_client(name)); }
static void tcp_connect(const char *name) {
    struct sockaddr_in a;
    tcp_listener(name, &a);
    while (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof a) == 0) {}
}
static void udp_recv(const char *name) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    NEED(bind(s, (void *)&a, sizeof a));
    read_forever(s);
}
static void netlink_recv(const char *name) { int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE); NEED(s); read_forever(s); }

static void flock_wait(const char *name) {
    int a = open(path_of("flock"), O_RDWR | O_CREAT, 0600), b = open(path_of("flock"), O_RDWR);
    NEED(flock(a, LOCK_EX));
    flock(b, LOCK_EX);
}
static void fcntl_wait(const char *name) {
    struct flock lock = {.l_type = F_WRLCK};
    int a = open(path_of("fcntl"), O_RDWR | O_CREAT, 0600), b = open(path_of("fcntl"), O_RDWR);
    NEED(fcntl(a, F_OFD_SETLKW, &lock));
    fcntl(b, F_OFD_SETLKW, &lock);
}

static int semaphores = -1, queues[2] = {-1, -1};
static void semop_wait(const char *name) {
    struct sembuf take = {0, -1, 0};
    NEED(semaphores = semget(IPC_PRIVATE, 1, 0600));
    semop(semaphores, &take, 1);
}
static void msgrcv_wait(const char *name) { NEED(queues[0] = msgget(IPC_PRIVATE, 0600)); msgrcv(queues[0], block, 64, 0, 0); }
static void msgsnd_wait(const char *name) {
    static struct { long type; char text[4096]; } message = {1};
    NEED(queues[1] = msgget(IPC_PRIVATE, 0600));
    while (msgsnd(queues[1], &message, sizeof message.text, 0) == 0) {}
}
struct mq_limits { long flags, max_messages, message_size, messages, reserved[4]; };
static int message_queue(const char *name) {
    char queue[64];
    struct mq_limits limits = {.max_messages = 2, .message_size = 64};
    snprintf(queue, sizeof queue, "wait-places-%d-%s", getpid(), name);
    int q = syscall(SYS_mq_open, queue, O_RDWR | O_CREAT, 0600, &limits);
    NEED(q);
    syscall(SYS_mq_unlink, queue);
    return q;
}
static void mq_receive_wait(const char *name) { syscall(SYS_mq_timedreceive, message_queue(name), block, sizeof block, 0, 0); }
static void mq_send_wait(const char *name) { int q = message_queue(name); while (syscall(SYS_mq_timedsend, q, block, 64, 0, 0) == 0) {} }
static void eventfd_read_wait(const char *name) { int e = eventfd(0, 0); NEED(e); read_forever(e); }
static void eventfd_write_wait(const char *name) {
    uint64_t most = UINT64_MAX - 1;
    int e = eventfd(0, 0);
    NEED(e);
    while (write(e, &most, sizeof most) > 0) {}
}

static void epoll_wait_forever(const char *name) { struct epoll_event event; int e = epoll_create1(0); NEED(e); epoll_wait(e, &event, 1, -1); }
static void poll_forever(const char *name) { int p[2]; NEED(pipe(p)); struct pollfd fd = {p[0], POLLIN, 0}; poll(&fd, 1, -1); }
static void select_forever(const char *name) { int p[2]; fd_set set; NEED(pipe(p)); FD_ZERO(&set); FD_SET(p[0], &set); select(p[0] + 1, &set, 0, 0, 0); }
static void inotify_wait(const char *name) { int i = inotify_init(); NEED(i); read_forever(i); }
static void signalfd_wait(const char *name) { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR2); int s = signalfd(-1, &set, 0); NEED(s); read_forever(s); }
static void timerfd_wait(const char *name) {
    struct itimerspec late = {.it_value.tv_sec = 3600};
    int t = timerfd_create(CLOCK_MONOTONIC, 0);
    NEED(timerfd_settime(t, 0, &late, 0));
    read_forever(t);
}
static void sigwait_wait(const char *name) { (void)name; sigset_t set; int s; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigwait(&set, &s); }
static void pause_wait(const char *name) { (void)name; pause(); }
static void tty_read(const char *name) { int a, b; NEED(openpty(&a, &b, 0, 0, 0)); read_forever(b); }
static void tty_write(const char *name) { int a, b; NEED(openpty(&a, &b, 0, 0, 0)); write_forever(b); }
static void nanosleep_wait(const char *name) { (void)name; sleep(3600); }
static void futex_wait(const char *name) { (void)name; static int word; syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, 0, 0, 0); }

static void vfork_wait(const char *name) {
    (void)name;
    if (vfork() == 0) {
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;) syscall(SYS_pause);
    }
}
static void waitpid_wait(const char *name) {
    pid_t pid = fork();
    NEED(pid);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    waitpid(pid, 0, 0);
}
static void stop_self(void) { raise(SIGSTOP); }
static void trace_me(void) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGUSR1); }

static char *faulty;
static int uffd = -1;
static void uffd_read(const char *name) {
    struct uffdio_api api = {.api = UFFD_API};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(uintptr_t)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    NEED(uffd = syscall(SYS_userfaultfd, O_CLOEXEC));
    NEED(ioctl(uffd, UFFDIO_API, &api));
    NEED(ioctl(uffd, UFFDIO_REGISTER, &all));
    faulty = page;
    read_forever(uffd);
}
static void userfault(const char *name) {
    for (int i = 0; !faulty && i < 2000; i++) milliseconds(5);
    errno = ENOSYS;
    NEED(faulty ? 0 : -1);
    *(volatile char *)faulty = 1;
}

static int fuse = -1;
static volatile int fuse_is_ready;
static void fuse_server(const char *name) {
    char options[128];
    int fd = open("/dev/fuse", O_RDWR);
    NEED(fd);
    NEED(mkdir(path_of("mnt"), 0700));
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    NEED(mount("waits", path_of("mnt"), "fuse", 0, options));
    fuse = fd;
    for (;;) {
        static char request[FUSE_MIN_READ_BUFFER * 4];
        struct fuse_in_header *in = (void *)request;
        if (read(fd, request, sizeof request) <= 0) return;
        if (in->opcode != FUSE_INIT) continue; /* Other requests are never answered. */
        struct { struct fuse_out_header header; struct fuse_init_out init; } answer = {
            .header = {.len = sizeof answer, .unique = in->unique},
            .init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096},
        };
        NEED(write(fd, &answer, sizeof answer));
        fuse_is_ready = 1;
    }
}
static void fuse_client(const char *name) {
    struct stat status;
    for (int i = 0; !fuse_is_ready && i < 2000; i++) milliseconds(5);
    errno = ENOSYS;
    NEED(fuse_is_ready ? 0 : -1);
    stat(path_of("mnt/file"), &status);
}

static volatile int guarded;
static void fanotify_wait(const char *name) {
    static char event[4096];
    int fd = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
    NEED(fd);
    NEED(close(open(path_of("guarded"), O_RDWR | O_CREAT, 0600)));
    NEED(fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path_of("guarded")));
    guarded = 1;
    for (;;) NEED(read(fd, event, sizeof event)); /* Never permit anything. */
}
static void fanotify_open(const char *name) {
    for (int i = 0; !guarded && i < 2000; i++) milliseconds(5);
    errno = ENOSYS;
    NEED(guarded ? 0 : -1);
    open(path_of("guarded"), O_RDONLY);
}

static void io_uring_wait(const char *name) {
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &params);
    NEED(ring);
    syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0);
}
static void aio_wait(const char *name) {
    unsigned long context = 0;
    NEED(syscall(SYS_io_setup, 4, &context));
    syscall(SYS_io_getevents, context, 1, 1, block, 0);
}
static void membarrier_wait(const char *name) { for (;;) NEED(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0)); }
static void fsync_wait(const char *name) {
    int fd = open(path_of("synced"), O_RDWR | O_CREAT, 0600);
    NEED(fd);
    for (;;) {
        NEED(pwrite(fd, block, 4096, 0));
        NEED(fsync(fd));
    }
}

/* The state (R, S, D, T, t) of a thread of ours or of a child; 0 if it has exited. */
static char state_of(int tid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : 0;
    fclose(file);
    return end ? end[2] : 0;
}

int main(int argc, char **argv) {
    sigset_t blocked;
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc < 2) return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    prctl(PR_SET_NAME, "wait_places");
    signal(SIGTTOU, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    if (unshare(CLONE_NEWNS) == 0) mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
    run_child("stopped", stop_self);
    run_child("ptraced", trace_me);
    run("pipe_write", pipe_write); run("pipe_read", pipe_read); run("fifo_open", fifo_open);
    run("unix_send", unix_send); run("unix_dgram_send", unix_dgram_send); run("unix_recv", unix_recv);
    run("unix_accept", unix_accept); run("unix_connect", unix_connect);
    run("tcp_accept", tcp_accept); run("tcp_recv", tcp_recv); run("tcp_send", tcp_send);
    run("tcp_connect", tcp_connect); run("udp_recv", udp_recv); run("netlink_recv", netlink_recv);
    run("flock", flock_wait); run("fcntl", fcntl_wait); run("semop", semop_wait);
    run("msgrcv", msgrcv_wait); run("msgsnd", msgsnd_wait);
    run("mq_receive", mq_receive_wait); run("mq_send", mq_send_wait);
    run("eventfd_read", eventfd_read_wait); run("eventfd_write", eventfd_write_wait);
    run("epoll", epoll_wait_forever); run("poll", poll_forever); run("select", select_forever);
    run("inotify", inotify_wait); run("signalfd", signalfd_wait); run("timerfd", timerfd_wait);
    run("sigwait", sigwait_wait); run("pause", pause_wait);
    run("tty_read", tty_read); run("tty_write", tty_write);
    run("nanosleep", nanosleep_wait); run("futex", futex_wait);
    run("vfork", vfork_wait); run("waitpid", waitpid_wait);
    run("uffd_read", uffd_read); run("userfault", userfault);
    run("fuse_server", fuse_server); run("fuse_client", fuse_client);
    run("fanotify_read", fanotify_wait); run("fanotify_open", fanotify_open);
    run("io_uring", io_uring_wait); run("aio", aio_wait);
    run("membarrier", membarrier_wait); run("fsync", fsync_wait);
    /* Wait until all sleep in twenty checks in a row; two of them are always busy. */
    for (int looks = 0, tries = 0; looks < 20 && tries < 6000; tries++, milliseconds(5)) {
        int asleep = 1;
        for (int i = 0; i < count; i++) {
            char state = waits[i].tid ? state_of(waits[i].tid) : 'R';
            int works = !strcmp(waits[i].name, "membarrier") || !strcmp(waits[i].name, "fsync");
            asleep &= waits[i].gave_up || works || (state != 'R' && state != 0);
        }
        looks = asleep ? looks + 1 : 0;
    }
    milliseconds(HOLD_MS);
    is_over = 1;
    if (semaphores >= 0) semctl(semaphores, 0, IPC_RMID);
    for (int i = 0; i < 2; i++) if (queues[i] >= 0) msgctl(queues[i], IPC_RMID, 0);
    for (int i = 0; i < count; i++) printf("WAITED %s %d\n", waits[i].name, waits[i].tid);
    puts("DONE");
    fflush(stdout);
    for (int i = 0; i < 2; i++) kill(waits[i].tid, SIGKILL);
    /* A process that waits for an answer from its own server cannot even be killed. */
    if (fuse >= 0) umount2(path_of("mnt"), MNT_FORCE);
    _exit(0);
}
