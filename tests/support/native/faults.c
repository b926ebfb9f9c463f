/* A library for LD_PRELOAD under which one system call below a directory fails once, as a bad disk or mount makes it.
 *
 * FAULT_BELOW  the directory; calls elsewhere, on the database and on code, are left alone
 * FAULT_AT     number of the call that fails, from 1; 0 fails none
 * FAULT_ERRNO  its error
 * FAULT_COUNT  a file that gets the number of calls when the process ends
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *below;
static long wanted;
static int failure;
static long calls;

__attribute__((constructor)) static void begin(void) {
    below = getenv("FAULT_BELOW");
    wanted = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 0;
    failure = getenv("FAULT_ERRNO") ? atoi(getenv("FAULT_ERRNO")) : EIO;
}

__attribute__((destructor)) static void end(void) {
    const char *file = getenv("FAULT_COUNT");
    FILE *count = file ? fopen(file, "a") : NULL;
    if (count) {
        fprintf(count, "%ld\n", calls);
        fclose(count);
    }
}

static int fails(int directory, const char *path) {
    char link[64], place[4096];
    if (!below) return 0;
    if (path && path[0] == '/') {
        if (strncmp(path, below, strlen(below))) return 0;
    } else {
        if (directory < 0) return 0;
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, place, sizeof place - 1);
        if (length < 0) return 0;
        place[length] = 0;
        if (strncmp(place, below, strlen(below))) return 0;
    }
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != wanted) return 0;
    errno = failure;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list more; va_start(more, last); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags, flags) return fails(-1, path) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return fails(-1, path) ? -1 : REAL(open64)(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return fails(at, path) ? -1 : REAL(openat)(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return fails(at, path) ? -1 : REAL(openat64)(at, path, flags, mode); }
int fstatat(int at, const char *path, struct stat *found, int flags) { return fails(at, path) ? -1 : REAL(fstatat)(at, path, found, flags); }
int fstatat64(int at, const char *path, struct stat64 *found, int flags) { return fails(at, path) ? -1 : REAL(fstatat64)(at, path, found, flags); }
int mkdirat(int at, const char *path, mode_t mode) { return fails(at, path) ? -1 : REAL(mkdirat)(at, path, mode); }
int unlinkat(int at, const char *path, int flags) { return fails(at, path) ? -1 : REAL(unlinkat)(at, path, flags); }
int renameat(int from, const char *source, int to, const char *target) { return fails(from, source) ? -1 : REAL(renameat)(from, source, to, target); }
int renameat2(int from, const char *source, int to, const char *target, unsigned flags) { return fails(from, source) ? -1 : REAL(renameat2)(from, source, to, target, flags); }
int fsync(int file) { return fails(file, NULL) ? -1 : REAL(fsync)(file); }
int fchmod(int file, mode_t mode) { return fails(file, NULL) ? -1 : REAL(fchmod)(file, mode); }
int ftruncate64(int file, off64_t length) { return fails(file, NULL) ? -1 : REAL(ftruncate64)(file, length); }
ssize_t read(int file, void *into, size_t length) { return fails(file, NULL) ? -1 : REAL(read)(file, into, length); }
ssize_t pread64(int file, void *into, size_t length, off64_t from) { return fails(file, NULL) ? -1 : REAL(pread64)(file, into, length, from); }
ssize_t write(int file, const void *from, size_t length) { return fails(file, NULL) ? -1 : REAL(write)(file, from, length); }
ssize_t pwrite64(int file, const void *from, size_t length, off64_t to) { return fails(file, NULL) ? -1 : REAL(pwrite64)(file, from, length, to); }
struct dirent64 *readdir64(DIR *directory) { return fails(dirfd(directory), NULL) ? NULL : REAL(readdir64)(directory); }

long syscall(long number, ...) { /* openat2, for which the C library has no function */
    long given[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++) given[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_openat2 && fails((int)given[0], (const char *)given[1])) return -1;
    return REAL(syscall)(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
