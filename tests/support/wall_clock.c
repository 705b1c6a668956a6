/*
 * Preloaded into a redis-server: its wall clock is the system's plus an offset that a test writes
 * into the file that LEASEHOLD_WALL_CLOCK names (eight bytes, nanoseconds, as the machine has
 * them). The monotonic clocks go on as they are, as they do when an administrator sets the time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static const _Atomic int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* A server whose clock cannot be stepped would let a test pass that shows nothing. */
__attribute__((constructor)) static void find_the_offset(void) {
    const char *path = getenv("LEASEHOLD_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) abort();
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (!real_clock_gettime) abort();
    offset = page;
}

static int64_t wall_nanos(void) {
    struct timespec now;
    if (!offset) return 0;
    real_clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec + *offset;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_clock_gettime) {
        errno = EAGAIN;
        return -1;
    }
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
        return real_clock_gettime(clock, time);
    }
    int64_t nanos = wall_nanos();
    time->tv_sec = nanos / SECOND;
    time->tv_nsec = nanos % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t nanos = wall_nanos();
    time->tv_sec = nanos / SECOND;
    time->tv_usec = nanos % SECOND / 1000;
    return 0;
}

time_t time(time_t *into) {
    time_t seconds = wall_nanos() / SECOND;
    if (into) *into = seconds;
    return seconds;
}
