/* The entry point of a container: `keeper MODULE [ARGUMENT ...]` runs `python -P -m MODULE [ARGUMENT ...]`.
 *
 * Promises: SIGTERM and SIGINT reach the program even while it starts (the kernel drops signals for which PID 1 has no
 * handler, unless they are blocked); orphaned processes are reaped; a program that stops sending heartbeats writes its
 * stacks to stderr and is killed, so the container exits and its restart policy applies; each time that this happens, the
 * next try has twice the time, up to MOST_SECONDS, so a slow host does not kill the program for ever. The exit code is
 * the program's, or 128 + N after signal N.
 *
 * Replicas of a service share a volume: each takes a data directory of its own there, $TUTTI_DATA_DIR or, with a number
 * behind it, the first that no other replica has, so that caches are used again and do not add up.
 *
 * `keeper --check PART` is the health check of a service or an agent: exit code 0 if healthy, else 1 with the reason.
 *
 * It is in C because there is one beside each program, for as long as that runs, and because checks run all the time:
 * in Python both need 4 MB and 40 ms of CPU time. The heartbeats are those of tutti.platform.heartbeatpipe, the health
 * file is that of tutti.chassis.runtime.healthfile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds; tests compile it with shorter ones. */
#ifndef FIRST_WORD_SECONDS
#define FIRST_WORD_SECONDS 60.0
#endif
#ifndef SILENCE_SECONDS
#define SILENCE_SECONDS 30.0
#endif
#ifndef MOST_SECONDS
#define MOST_SECONDS 900.0 /* the longest limit; after so long without a missed limit, the limits fall back */
#endif
#ifndef LOOK_SECONDS
#define LOOK_SECONDS 1.0
#endif
#define EXAMINE_SECONDS 1 /* for a program that hangs to write its stacks */
#define MOST_REPLICAS 9
#ifndef CHOSEN
#define CHOSEN "/tmp/.tutti-data" /* a link to the data directory, if it is not the first of the volume */
#endif
#define STALE_SECONDS 20  /* of a health file; longer than the deadline of a database that hangs */

enum { HEALTHY, FAILED, MISUSE, SIGNALLED = 128 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static const char *data_dir(void)
{
    const char *folder = getenv("TUTTI_DATA_DIR");
    return folder ? folder : ".tutti";
}

/* Own a data directory of the volume as long as this process lives. Where there can be no lock, it is the first one. */
static void choose(void)
{
    char folder[4032], lock[4096], number_behind[16] = "";
    const char *given = getenv("TUTTI_DATA_DIR");
    if (given == NULL || strlen(given) > 4000)
        return;
    unlink(CHOSEN);
    for (int number = 1; number <= MOST_REPLICAS; number++) {
        if (number > 1)
            snprintf(number_behind, sizeof number_behind, "-%d", number);
        snprintf(folder, sizeof folder, "%.4000s%s", given, number_behind);
        snprintf(lock, sizeof lock, "%s.lock", folder);
        int file = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (file < 0)
            return;
        if (flock(file, LOCK_EX | LOCK_NB) == 0) {
            if (number > 1 && (symlink(folder, CHOSEN) != 0 || setenv("TUTTI_DATA_DIR", folder, 1) != 0))
                fprintf(stderr, "tutti: %s cannot be recorded: %s\n", folder, strerror(errno));
            return;
        }
        close(file);
    }
}

/* Return 0 and print "healthy", or print the reason why PART is not. */
static int check(const char *part)
{
    char folder[4000], path[4096], reason[4096] = "";
    struct stat status;
    ssize_t named = readlink(CHOSEN, folder, sizeof folder - 1);
    if (named >= 0)
        folder[named] = '\0';
    else
        snprintf(folder, sizeof folder, "%s", data_dir());
    snprintf(path, sizeof path, "%s/endpoints/%s.health", folder, part);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
        return puts("it has not started yet"), FAILED;
    ssize_t length = file < 0 ? -1 : read(file, reason, sizeof reason - 1);
    if (length < 0 || fstat(file, &status) != 0)
        return printf("%s cannot be read: %s\n", path, strerror(errno)), FAILED;
    reason[length] = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    long silent = (long)(time(NULL) - status.st_mtime);
    if (silent > STALE_SECONDS)
        return printf("no word for %ld s%s%s\n", silent, *reason ? "; the last one: " : "", reason), FAILED;
    return puts(*reason ? reason : "healthy"), *reason ? FAILED : HEALTHY;
}

/* Start the program with the other end of the leash; its process id, or -1. */
static pid_t start(char **words, int mine, int theirs, const sigset_t *mask)
{
    pid_t program = fork();
    if (program == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", theirs);
        close(mine);
        if (setenv("TUTTI_SUPERVISOR_FD", number, 1) == 0 && sigprocmask(SIG_SETMASK, mask, NULL) == 0)
            execvp(words[0], words);
        fprintf(stderr, "tutti: %s cannot be started: %s\n", words[0], strerror(errno));
        _exit(MISUSE);
    }
    close(theirs);
    return program;
}

/* Reap every process that ended; the exit code once the program is among them, else -1. */
static int reap(pid_t program)
{
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        if (ended == program)
            return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status);
    return ended < 0 && errno == ECHILD ? FAILED : -1;
}

/* Return the words since the last call: 0 for none, '.' if there was a heartbeat, 's' if the program only starts. */
static char heard(int leash)
{
    char words[256], found = 0;
    ssize_t length;
    while ((length = recv(leash, words, sizeof words, MSG_DONTWAIT)) > 0)
        if (found != '.')
            found = memchr(words, '.', (size_t)length) ? '.' : 's';
    return found;
}

/* The number of limits that the program missed is kept in a file beside the data directory, which may not be there yet,
 * since each of them ends the container. Where the file cannot be written, the limits stay as they are. */
static int missed(const char *path)
{
    int count = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &count) != 1 || count < 0 || count > 20)
        count = 0;
    fclose(file);
    return count;
}

static void remember(const char *path, int count)
{
    FILE *file = count > 0 ? fopen(path, "we") : NULL;
    if (count == 0)
        unlink(path);
    if (file != NULL) {
        fprintf(file, "%d\n", count);
        fclose(file);
    }
}

static double doubled(double seconds, int count)
{
    double limit = seconds;
    while (count-- > 0 && limit < MOST_SECONDS)
        limit = 2 * limit < MOST_SECONDS ? 2 * limit : MOST_SECONDS;
    return limit;
}

/* Let a program that hangs write its stacks, and kill it. */
static void give_up(pid_t program, const char *module, double seconds)
{
    fprintf(stderr, "tutti: %s: no heartbeat for %g s; killed\n", module, seconds);
    kill(program, SIGUSR1);
    sleep(EXAMINE_SECONDS);
    kill(program, SIGKILL);
}

static int keep(pid_t program, const char *module, int leash, const sigset_t *signals)
{
    const struct timespec look = {(time_t)LOOK_SECONDS, (long)((LOOK_SECONDS - (time_t)LOOK_SECONDS) * 1e9)};
    char path[4096];
    snprintf(path, sizeof path, "%s.%s.missed", data_dir(), module);
    int count = missed(path);
    double limit = doubled(FIRST_WORD_SECONDS, count), began = now(), since = began, looked = began;
    int code, stopping = 0;
    while ((code = reap(program)) < 0) {
        int number = sigtimedwait(signals, NULL, &look);
        if ((number == SIGTERM || number == SIGINT) && !stopping) {
            stopping = 1;
            kill(program, number);
        }
        double at = now();
        char word = heard(leash);
        if (word)
            since = at;
        if (word == '.') {
            if (count > 0 && at - began >= MOST_SECONDS)
                remember(path, count = 0);
            limit = doubled(SILENCE_SECONDS, count);
        }
        /* After a pause of our own, as of a container, the program has the whole time again. */
        if (at - looked > limit / 4)
            since = at;
        looked = at;
        if (!stopping && at - since > limit) {
            stopping = 1;
            remember(path, count + 1);
            give_up(program, module, limit);
        }
    }
    return code;
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "--check") == 0)
        return check(arguments[2]);
    if (count < 2 || arguments[1][0] == '-') {
        fputs("tutti: expected MODULE [ARGUMENT ...], such as tutti.scheduler, or --check PART\n", stderr);
        return MISUSE;
    }
    char **words = calloc((size_t)count + 3, sizeof *words);
    if (words == NULL)
        return FAILED;
    words[0] = "python";
    words[1] = "-P"; /* the data directory is the working directory, and no place to import from */
    words[2] = "-m";
    memcpy(words + 3, arguments + 1, (size_t)(count - 1) * sizeof *words);

    choose();
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0) {
        perror("tutti: no socket");
        return FAILED;
    }
    pid_t program = start(words, ends[0], ends[1], &before);
    if (program < 0) {
        perror("tutti: no process");
        return FAILED;
    }
    return keep(program, arguments[1], ends[0], &signals);
}
