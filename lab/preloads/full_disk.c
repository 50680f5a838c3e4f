/* Lets writes to files under FULL_DISK_FOLDER fail, the first of them half-way, as long as the file FULL_DISK_FLAG is
   there: a disk that is full. A library for LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int file) {
    const char *flag = getenv("FULL_DISK_FLAG"), *folder = getenv("FULL_DISK_FOLDER");
    char link[64], path[PATH_MAX];
    if (!flag || !folder || access(flag, F_OK))
        return 0;
    int error = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = error;
    return length > 0 && (path[length] = 0, !strncmp(path, folder, strlen(folder)));
}

static ssize_t refuse(void) {
    errno = ENOSPC;
    return -1;
}

ssize_t write(int file, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = (ssize_t (*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
    if (!is_full(file))
        return real(file, data, size);
    return size > 1 ? real(file, data, size / 2) : refuse();
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real)
        real = (ssize_t (*)(int, const struct iovec *, int)) dlsym(RTLD_NEXT, "writev");
    return is_full(file) ? refuse() : real(file, parts, count);
}

#define POSITIONED(name)                                                                                               \
    ssize_t name(int file, const void *data, size_t size, off_t at) {                                                  \
        static ssize_t (*real)(int, const void *, size_t, off_t);                                                      \
        if (!real)                                                                                                     \
            real = (ssize_t (*)(int, const void *, size_t, off_t)) dlsym(RTLD_NEXT, #name);                            \
        return is_full(file) ? refuse() : real(file, data, size, at);                                                  \
    }
POSITIONED(pwrite)
POSITIONED(pwrite64)

#define SIZED(name)                                                                                                    \
    int name(int file, off_t size) {                                                                                   \
        static int (*real)(int, off_t);                                                                                \
        if (!real)                                                                                                     \
            real = (int (*)(int, off_t)) dlsym(RTLD_NEXT, #name);                                                      \
        struct stat now;                                                                                               \
        int grows = !fstat(file, &now) && size > now.st_size;                                                          \
        return grows && is_full(file) ? (int) refuse() : real(file, size);                                             \
    }
SIZED(ftruncate)
SIZED(ftruncate64)
