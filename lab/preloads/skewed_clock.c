/* Adds CLOCK_SKEW_MS to the time of day, and to nothing else, as a host whose clock is wrong: a library for LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long skew_ns(void) {
    const char *milliseconds = getenv("CLOCK_SKEW_MS");
    return milliseconds ? atoll(milliseconds) * 1000000LL : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME) {
        long long time = now->tv_sec * 1000000000LL + now->tv_nsec + skew_ns();
        now->tv_sec = time / 1000000000LL;
        now->tv_nsec = time % 1000000000LL;
    }
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec time;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    (void) zone;
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return result;
}
