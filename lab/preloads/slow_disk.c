/* Makes every flush of a file wait, as a disk with rotating platters does: a library for LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#define FLUSH_MICROSECONDS 5000

static int flush(const char *name, int file) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
    usleep(FLUSH_MICROSECONDS);
    return real(file);
}

int fsync(int file) { return flush("fsync", file); }

int fdatasync(int file) { return flush("fdatasync", file); }
