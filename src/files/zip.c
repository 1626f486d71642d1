/* zip.c: reading and writing archives (zip.h). Field offsets are those of PKWARE's APPNOTE, section 4.3. */
#include "files/zip.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum {
    LOCAL_MARK = 0x04034b50,
    CENTRAL_MARK = 0x02014b50,
    END_MARK = 0x06054b50,
    END64_MARK = 0x06064b50,
    LOCATOR_MARK = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    COMMENT_MOST = 65535,
    FLAG_ENCRYPTED = 1,
    FLAG_UTF8 = 1 << 11,
    EXTRA_ZIP64 = 1,
    EXTRA_PADDING = 0x4246, /* "FB": what PyTorch calls the field that aligns the data */
};
#define SMALL_MOST 0xffffffffu /* a field of four bytes that says: see the zip64 field */

static int broken(const char *what)
{
    return error_int(BK_RUNTIME_ERROR, "the zip archive is broken: %s. The file may be truncated or damaged", what);
}

/* --- the end record: where the directory is --------------------------------------------------------------------- */

typedef struct directory {
    uint64_t at, size, count;
} directory;

static int read_end64(const source *in, uint64_t end_at, directory *d)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    if (end_at < LOCATOR_BYTES || source_read(in, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES) < 0 ||
        load_le(locator, 4) != LOCATOR_MARK)
        return broken("the zip64 locator is missing");
    if (source_read(in, load_le(locator + 8, 8), end, END64_BYTES) < 0 || load_le(end, 4) != END64_MARK)
        return broken("the zip64 end record is missing");
    *d = (directory){ .count = load_le(end + 32, 8), .size = load_le(end + 40, 8), .at = load_le(end + 48, 8) };
    return 0;
}

/* The end record is the last thing in the file but for a comment of up to 64 KB. */
static int find_directory(const source *in, directory *d)
{
    uint64_t most = COMMENT_MOST + END_BYTES, tail_bytes = in->size < most ? in->size : most;
    unsigned char *tail = mem_alloc(tail_bytes + 1);
    if (!tail || source_read(in, in->size - tail_bytes, tail, tail_bytes) < 0) {
        mem_free(tail);
        return -1;
    }
    int64_t i = (int64_t)tail_bytes - END_BYTES;
    while (i >= 0 && load_le(tail + i, 4) != END_MARK)
        i--;
    int status = 0;
    if (i < 0) {
        status = broken("failed finding central directory");
    } else {
        const unsigned char *end = tail + i;
        uint64_t end_at = in->size - tail_bytes + (uint64_t)i;
        *d = (directory){ .count = load_le(end + 10, 2), .size = load_le(end + 12, 4), .at = load_le(end + 16, 4) };
        if (d->count == 0xffff || d->size == SMALL_MOST || d->at == SMALL_MOST)
            status = read_end64(in, end_at, d);
        if (status == 0 && (d->at > end_at || d->size > end_at - d->at || d->count > d->size / CENTRAL_BYTES))
            status = broken("its directory is not within the file");
    }
    mem_free(tail);
    return status;
}

/* --- the directory ------------------------------------------------------------------------------------------------ */

/* Fields that did not fit into four bytes are in the extra field, in this order. */
static int read_zip64(const unsigned char *extra, size_t bytes, uint64_t *size, uint64_t *packed, uint64_t *start)
{
    uint64_t *fields[] = { size, packed, start };
    for (size_t i = 0; i + 4 <= bytes;) {
        size_t id = load_le(extra + i, 2), length = load_le(extra + i + 2, 2);
        i += 4;
        if (length > bytes - i)
            return broken("an extra field is longer than its record");
        for (size_t k = 0, at = i; id == EXTRA_ZIP64 && k < 3; k++) {
            if (*fields[k] != SMALL_MOST)
                continue;
            if (at + 8 > i + length)
                return broken("a zip64 field is missing");
            *fields[k] = load_le(extra + at, 8);
            at += 8;
        }
        i += length;
    }
    return 0;
}

/* Names are looked up and become keys, never paths; a name that tries to be one is the work of somebody hostile. */
static bool honest_name(const char *name, size_t length)
{
    if (!length || memchr(name, 0, length) || name[0] == '/' || memchr(name, '\\', length))
        return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
            return false;
    return true;
}

/* One record of the directory: fills e, copies the name to *names. Returns the record's length, or -1. */
static int64_t read_record(const unsigned char *p, uint64_t bytes, zip_entry *e, char **names)
{
    if (bytes < CENTRAL_BYTES || load_le(p, 4) != CENTRAL_MARK)
        return broken("a record of its directory is not one");
    size_t name = load_le(p + 28, 2), extra = load_le(p + 30, 2), comment = load_le(p + 32, 2);
    if (name + extra + comment > bytes - CENTRAL_BYTES)
        return broken("a record of its directory is longer than the directory");
    if (load_le(p + 8, 2) & FLAG_ENCRYPTED)
        return error_int(BK_RUNTIME_ERROR, "the zip archive is encrypted");
    uint64_t packed = load_le(p + 20, 4);
    *e = (zip_entry){ .name = *names,
                      .method = (uint16_t)load_le(p + 10, 2),
                      .crc = (uint32_t)load_le(p + 16, 4),
                      .size = load_le(p + 24, 4),
                      .start = load_le(p + 42, 4) };
    memcpy(*names, p + CENTRAL_BYTES, name);
    (*names)[name] = 0;
    if (!honest_name(*names, name))
        return error_int(BK_RUNTIME_ERROR, "the zip archive has an entry with an unsafe name");
    *names += name + 1;
    if (read_zip64(p + CENTRAL_BYTES + name, extra, &e->size, &packed, &e->start) < 0)
        return -1;
    if (e->method == 0 && packed != e->size)
        return broken("a stored entry has two sizes");
    if (e->method != 0)
        e->size = packed; /* the bytes it takes in the file, for the checks; it cannot be read */
    return (int64_t)(CENTRAL_BYTES + name + extra + comment);
}

/* The data follows the local header, whose name and extra field have lengths of their own. */
static int locate(const source *in, uint64_t limit, zip_entry *e)
{
    unsigned char header[LOCAL_BYTES];
    if (e->start > limit || limit - e->start < LOCAL_BYTES || source_read(in, e->start, header, LOCAL_BYTES) < 0 ||
        load_le(header, 4) != LOCAL_MARK)
        return broken("an entry's header is not where the directory says");
    uint64_t skip = LOCAL_BYTES + load_le(header + 26, 2) + load_le(header + 28, 2);
    if (skip > limit - e->start || e->size > limit - e->start - skip)
        return broken("an entry reaches outside the file");
    e->at = e->start + skip;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const zip_entry *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zip_entry *)a)->name, ((const zip_entry *)b)->name);
}

static int check_apart(zip_reader *z)
{
    qsort(z->entries, (size_t)z->count, sizeof *z->entries, by_place);
    for (int64_t i = 1; i < z->count; i++)
        if (z->entries[i].start < z->entries[i - 1].at + z->entries[i - 1].size)
            return broken("two entries overlap");
    qsort(z->entries, (size_t)z->count, sizeof *z->entries, by_name);
    for (int64_t i = 1; i < z->count; i++)
        if (!strcmp(z->entries[i].name, z->entries[i - 1].name))
            return broken("two entries have one name");
    return 0;
}

static int read_directory(zip_reader *z, const directory *d, const unsigned char *bytes)
{
    char *names = z->names;
    uint64_t at = 0;
    for (z->count = 0; z->count < (int64_t)d->count; z->count++) {
        zip_entry *e = &z->entries[z->count];
        int64_t length = read_record(bytes + at, d->size - at, e, &names);
        if (length < 0 || locate(&z->in, d->at, e) < 0)
            return -1;
        at += (uint64_t)length;
    }
    return check_apart(z);
}

int zip_open(zip_reader *z, source in)
{
    *z = (zip_reader){ .in = in };
    directory d = { 0 };
    unsigned char *bytes = NULL;
    int status = find_directory(&in, &d);
    if (status == 0) {
        bytes = mem_alloc(d.size + 1);
        z->entries = mem_alloc(d.count * sizeof *z->entries + 1);
        z->names = mem_alloc(d.size + 1); /* a name and its 0 are shorter than its record */
        status = bytes && z->entries && z->names ? source_read(&in, d.at, bytes, d.size) : -1;
    }
    if (status == 0)
        status = read_directory(z, &d, bytes);
    mem_free(bytes);
    if (status < 0)
        zip_close(z);
    return status;
}

void zip_close(zip_reader *z)
{
    mem_free(z->entries);
    mem_free(z->names);
    source_close(&z->in);
    *z = (zip_reader){ .in = z->in };
}

const zip_entry *zip_find(const zip_reader *z, const char *name)
{
    zip_entry key = { .name = name };
    return z->count ? bsearch(&key, z->entries, (size_t)z->count, sizeof key, by_name) : NULL;
}

int zip_read(const zip_reader *z, const zip_entry *e, void *to)
{
    if (e->method != 0)
        return error_int(BK_RUNTIME_ERROR, "%s is compressed in the archive: only stored entries can be read", e->name);
    if (source_read(&z->in, e->at, to, e->size) < 0)
        return -1;
    if (crc32_of(0, to, e->size) != e->crc)
        return error_int(BK_RUNTIME_ERROR, "%s has a wrong checksum: the file is damaged", e->name);
    return 0;
}

void *zip_read_all(const zip_reader *z, const zip_entry *e)
{
    char *bytes = mem_alloc(e->size + 1);
    if (bytes && zip_read(z, e, bytes) < 0) {
        mem_free(bytes);
        return NULL;
    }
    if (bytes)
        bytes[e->size] = 0;
    return bytes;
}

/* --- writing --------------------------------------------------------------------------------------------------------
 */

static uint64_t small(uint64_t value) { return value < SMALL_MOST ? value : SMALL_MOST; }

/* The fields that a local header and a record of the directory share. */
static void store_common(unsigned char *p, uint64_t size, uint32_t crc, size_t name, size_t extra)
{
    store_le(p, 2, size < SMALL_MOST ? 20 : 45); /* the version of zip that it needs */
    store_le(p + 2, 2, FLAG_UTF8);
    store_le(p + 4, 2, 0);  /* stored */
    store_le(p + 6, 2, 0);  /* no time: the same tensors give the same bytes */
    store_le(p + 8, 2, 33); /* 1980-01-01 */
    store_le(p + 10, 4, crc);
    store_le(p + 14, 4, small(size));
    store_le(p + 18, 4, small(size));
    store_le(p + 22, 2, name);
    store_le(p + 24, 2, extra);
}

static int add_record(zip_writer *z, const char *name, uint64_t size, uint32_t crc, uint64_t start)
{
    unsigned char p[CENTRAL_BYTES] = { 0 }, extra[28];
    bool large = size >= SMALL_MOST;
    size_t length = strlen(name), more = (large ? 16 : 0) + (start >= SMALL_MOST ? 8 : 0);
    store_le(p, 4, CENTRAL_MARK);
    store_le(p + 4, 2, 45);
    store_common(p + 6, size, crc, length, more ? more + 4 : 0);
    store_le(p + 42, 4, small(start));
    store_le(extra, 2, EXTRA_ZIP64);
    store_le(extra + 2, 2, more);
    store_le(extra + 4, 8, large ? size : start);
    store_le(extra + 12, 8, size);
    store_le(extra + 20, 8, start);
    z->count++;
    return buffer_add(&z->directory, p, sizeof p) < 0 || buffer_add(&z->directory, name, length) < 0 ||
                   (more && buffer_add(&z->directory, extra, more + 4) < 0)
               ? -1
               : 0;
}

int zip_add(zip_writer *z, const char *name, const void *data, uint64_t size)
{
    unsigned char header[LOCAL_BYTES], extra[20 + 4 + ZIP_ALIGNMENT] = { 0 };
    size_t length = strlen(name), used = size >= SMALL_MOST ? 20 : 0;
    if (length > 65000)
        return error_int(BK_VALUE_ERROR, "a name in an archive has at most 65000 bytes, this one has %zu", length);
    if (used) {
        store_le(extra, 2, EXTRA_ZIP64);
        store_le(extra + 2, 2, 16);
        store_le(extra + 4, 8, size);
        store_le(extra + 12, 8, size);
    }
    uint64_t start = z->out.at, data_at = start + LOCAL_BYTES + length + used + 4;
    size_t padding = (size_t)(-data_at % ZIP_ALIGNMENT);
    store_le(extra + used, 2, EXTRA_PADDING);
    store_le(extra + used + 2, 2, padding);
    memset(extra + used + 4, 'Z', padding);
    used += 4 + padding;

    uint32_t crc = crc32_of(0, data, size);
    store_le(header, 4, LOCAL_MARK);
    store_common(header + 4, size, crc, length, used);
    if (sink_write(&z->out, header, sizeof header) < 0 || sink_write(&z->out, name, length) < 0 ||
        sink_write(&z->out, extra, used) < 0 || sink_write(&z->out, data, size) < 0)
        return -1;
    return add_record(z, name, size, crc, start);
}

static int write_end(zip_writer *z)
{
    uint64_t at = z->out.at, size = z->directory.count;
    if (sink_write(&z->out, z->directory.bytes, size) < 0)
        return -1;
    if (at >= SMALL_MOST || size >= SMALL_MOST || z->count >= 0xffff) {
        unsigned char end[END64_BYTES + LOCATOR_BYTES] = { 0 }, *locator = end + END64_BYTES;
        store_le(end, 4, END64_MARK);
        store_le(end + 4, 8, END64_BYTES - 12);
        store_le(end + 12, 2, 45);
        store_le(end + 14, 2, 45);
        store_le(end + 24, 8, z->count);
        store_le(end + 32, 8, z->count);
        store_le(end + 40, 8, size);
        store_le(end + 48, 8, at);
        store_le(locator, 4, LOCATOR_MARK);
        store_le(locator + 8, 8, z->out.at);
        store_le(locator + 16, 4, 1);
        if (sink_write(&z->out, end, sizeof end) < 0)
            return -1;
    }
    unsigned char end[END_BYTES] = { 0 };
    uint64_t count = z->count < 0xffff ? z->count : 0xffff;
    store_le(end, 4, END_MARK);
    store_le(end + 8, 2, count);
    store_le(end + 10, 2, count);
    store_le(end + 12, 4, small(size));
    store_le(end + 16, 4, small(at));
    return sink_write(&z->out, end, sizeof end);
}

int zip_finish(zip_writer *z, bool commit)
{
    int status = commit ? write_end(z) : 0;
    int closed = sink_close(&z->out, commit && status == 0);
    buffer_free(&z->directory);
    return status < 0 || closed < 0 ? -1 : 0;
}
