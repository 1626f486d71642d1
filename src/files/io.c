/* io.c: sources and sinks (io.h). */
#include "files/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"

enum { CALL_BYTES = 1 << 30 }; /* some systems refuse more than 2 GB in one read or write */

/* --- sources -------------------------------------------------------------------------------------------------------
 */

int source_of_fd(source *s, int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_int(BK_RUNTIME_ERROR, "cannot read the file: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_int(BK_RUNTIME_ERROR, "cannot read the file: it is not a regular file");
    *s = (source){ .fd = fd, .size = (uint64_t)st.st_size };
    return 0;
}

int source_open(source *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_int(BK_RUNTIME_ERROR, "cannot open %s: %s", path, strerror(errno));
    if (source_of_fd(s, fd) < 0) {
        close(fd);
        return -1;
    }
    s->owned = true;
    return 0;
}

source source_of_memory(const void *bytes, size_t size) { return (source){ .fd = -1, .bytes = bytes, .size = size }; }

void source_close(source *s)
{
    if (s->owned)
        close(s->fd);
    *s = (source){ .fd = -1 };
}

int source_read(const source *s, uint64_t at, void *to, uint64_t count)
{
    if (at > s->size || count > s->size - at)
        return error_int(BK_RUNTIME_ERROR, "the file is truncated: it has %llu bytes, %llu are asked for at %llu",
                         (unsigned long long)s->size, (unsigned long long)count, (unsigned long long)at);
    if (s->fd < 0) {
        if (count)
            memcpy(to, s->bytes + at, count);
        return 0;
    }
    for (char *p = to; count;) {
        ssize_t n = pread(s->fd, p, count < CALL_BYTES ? count : CALL_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_int(BK_RUNTIME_ERROR, "cannot read the file: %s",
                             n ? strerror(errno) : "it became shorter meanwhile");
        p += n;
        at += (uint64_t)n;
        count -= (uint64_t)n;
    }
    return 0;
}

/* --- sinks ---------------------------------------------------------------------------------------------------------
 */

static int write_fd(void *context, const void *bytes, size_t count)
{
    const sink *s = context;
    for (const char *p = bytes; count;) {
        ssize_t n = write(s->fd, p, count < CALL_BYTES ? count : CALL_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_int(BK_RUNTIME_ERROR, "cannot write %s: %s", s->path, strerror(errno));
        p += n;
        count -= (size_t)n;
    }
    return 0;
}

/* The file that `path` is or will be, symbolic links followed: a link is written through, not replaced. */
static char *target_of(const char *path)
{
    char *real = realpath(path, NULL);
    const char *from = real ? real : path;
    size_t n = strlen(from) + 1;
    char *copy = mem_alloc(n);
    if (copy)
        memcpy(copy, from, n);
    free(real);
    return copy;
}

static void forget(sink *s)
{
    mem_free(s->path);
    mem_free(s->temporary);
    *s = (sink){ .fd = -1 };
}

/* The permissions of the file that is replaced, or those of a new one. */
static mode_t mode_for(const struct stat *old, bool exists)
{
    if (exists)
        return old->st_mode & 07777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int sink_open(sink *s, const char *path)
{
    *s = (sink){ .fd = -1, .write = write_fd };
    if (!(s->path = target_of(path)))
        return -1;
    struct stat old;
    bool exists = stat(s->path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) { /* a pipe or a device cannot be replaced, only written to */
        s->fd = open(s->path, O_WRONLY | O_CLOEXEC);
    } else {
        size_t n = strlen(s->path);
        if (!(s->temporary = mem_alloc(n + sizeof ".XXXXXX"))) {
            forget(s);
            return -1;
        }
        memcpy(s->temporary, s->path, n);
        memcpy(s->temporary + n, ".XXXXXX", sizeof ".XXXXXX");
        s->fd = mkstemp(s->temporary);
        if (s->fd >= 0 && fchmod(s->fd, mode_for(&old, exists)) < 0 && errno != EPERM)
            error_int(BK_RUNTIME_ERROR, "cannot set the permissions of %s: %s", path, strerror(errno));
    }
    if (s->fd >= 0)
        return 0;
    error_int(BK_RUNTIME_ERROR, "cannot write %s: %s", path, strerror(errno));
    forget(s);
    return -1;
}

sink sink_of_callback(int (*write)(void *, const void *, size_t), void *context)
{
    return (sink){ .fd = -1, .write = write, .context = context };
}

int sink_write(sink *s, const void *bytes, size_t count)
{
    if (s->write(s->fd >= 0 ? s : s->context, bytes, count) < 0)
        return -1;
    s->at += count;
    return 0;
}

/* The directory's entry is data of the directory: until that is on the disk, so is the old name only. Some file systems
 * cannot do it, which is no reason to fail. */
static void sync_directory(const char *path, char *scratch)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    memcpy(scratch, slash ? path : ".", n);
    scratch[n] = 0;
    int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static int commit_file(sink *s)
{
    if (s->temporary && fsync(s->fd) < 0)
        return error_int(BK_RUNTIME_ERROR, "cannot write %s: %s", s->path, strerror(errno));
    int fd = s->fd;
    s->fd = -1;
    if (close(fd) < 0)
        return error_int(BK_RUNTIME_ERROR, "cannot write %s: %s", s->path, strerror(errno));
    if (!s->temporary)
        return 0;
    if (rename(s->temporary, s->path) < 0)
        return error_int(BK_RUNTIME_ERROR, "cannot write %s: %s", s->path, strerror(errno));
    sync_directory(s->path, s->temporary); /* whose text is no longer needed, and longer than the path */
    mem_free(s->temporary);
    s->temporary = NULL;
    return 0;
}

int sink_close(sink *s, bool commit)
{
    int status = 0;
    if (s->path) {
        status = commit ? commit_file(s) : 0;
        if (s->fd >= 0)
            close(s->fd);
        if (s->temporary)
            unlink(s->temporary);
    }
    forget(s);
    return status;
}

/* --- memory
 * ---------------------------------------------------------------------------------------------------------*/

void *array_grow(void *array, size_t *room, size_t needed, size_t size)
{
    if (needed <= *room && array)
        return array;
    size_t more = needed + needed / 2 + 8, bytes;
    if (__builtin_mul_overflow(more, size, &bytes))
        return error_memory();
    void *grown = array ? mem_resize(array, bytes) : mem_alloc(bytes);
    if (grown)
        *room = more;
    return grown;
}

int buffer_add(buffer *b, const void *bytes, size_t count)
{
    unsigned char *grown = array_grow(b->bytes, &b->room, b->count + count, 1);
    if (!grown)
        return -1;
    b->bytes = grown;
    if (count)
        memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
    return 0;
}

void buffer_free(buffer *b)
{
    mem_free(b->bytes);
    *b = (buffer){ 0 };
}

uint64_t load_le(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

void store_le(unsigned char *p, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        p[i] = (unsigned char)value;
}
