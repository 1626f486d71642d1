/* io.h: where the file formats read from and write to.
 *
 * A source is a file or memory of a known size; a read outside it is an error, never a short result, so a format that
 * checks nothing still reads no byte that is not there. Files are read, not mapped: a file that somebody truncates
 * meanwhile is an error as well, not a signal.
 *
 * A sink is a file or a callback that takes bytes in order. A file appears under its name when it is complete and on
 * the disk, and not at all otherwise: whoever loses power while saving still has the old one. */
#ifndef BK_FILES_IO_H
#define BK_FILES_IO_H
#include "brisk.h"

typedef struct source {
    int fd; /* -1: memory */
    bool owned;
    const unsigned char *bytes;
    uint64_t size;
} source;

int source_open(source *s, const char *path);
int source_of_fd(source *s, int fd); /* fd stays the caller's */
source source_of_memory(const void *bytes, size_t size);
void source_close(source *s);
int source_read(const source *s, uint64_t at, void *to, uint64_t count);

typedef struct sink {
    int (*write)(void *context, const void *bytes, size_t count); /* 0, or -1 with the error set */
    void *context;
    uint64_t at; /* bytes written so far */
    int fd;      /* of a file; -1 otherwise */
    char *path, *temporary;
} sink;

int sink_open(sink *s, const char *path);
sink sink_of_callback(int (*write)(void *, const void *, size_t), void *context);
int sink_write(sink *s, const void *bytes, size_t count);
/* Ends the sink. commit: what was written becomes the file; otherwise nothing has happened. */
int sink_close(sink *s, bool commit);

/* Bytes that grow. */
typedef struct buffer {
    unsigned char *bytes;
    size_t count, room;
} buffer;

int buffer_add(buffer *b, const void *bytes, size_t count);
void buffer_free(buffer *b);

/* Little-endian numbers, wherever they lie. */
uint64_t load_le(const unsigned char *p, int bytes);
void store_le(unsigned char *p, int bytes, uint64_t value);

/* count times size elements of memory, grown by half when full; NULL with the error set, the old memory untouched. */
void *array_grow(void *array, size_t *room, size_t needed, size_t size);

#endif
