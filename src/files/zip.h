/* zip.h: zip archives of stored (not compressed) entries, which is what PyTorch's checkpoints and NumPy's .npz are.
 *
 * What the reader promises about an archive that it opened: every entry lies within the file, no two share a byte, and
 * no two have the same name. So all that can be read from an archive is no larger than the archive: there are no zip
 * bombs. An entry's checksum is verified whenever it is read. Nothing is ever written under an entry's name. */
#ifndef BK_FILES_ZIP_H
#define BK_FILES_ZIP_H
#include "files/io.h"

typedef struct zip_entry {
    const char *name;         /* ends with 0; holds no other 0, no "..", does not begin with a slash */
    uint64_t start, at, size; /* of its header; of its data */
    uint32_t crc;
    uint16_t method; /* 0: stored */
} zip_entry;

typedef struct zip_reader {
    source in;
    zip_entry *entries; /* by name */
    int64_t count;
    char *names;
} zip_reader;

/* Takes over the source: zip_close closes it, as does a failure. */
int zip_open(zip_reader *z, source in);
void zip_close(zip_reader *z);
/* NULL when there is none, which sets no error. */
const zip_entry *zip_find(const zip_reader *z, const char *name);
int zip_read(const zip_reader *z, const zip_entry *e, void *to);
/* The whole entry, followed by a 0 that does not count, in memory of mem_alloc. */
void *zip_read_all(const zip_reader *z, const zip_entry *e);

typedef struct zip_writer {
    sink out;
    buffer directory;
    uint64_t count;
} zip_writer;

enum { ZIP_ALIGNMENT = 64 }; /* of an entry's data in the file: PyTorch's */

int zip_add(zip_writer *z, const char *name, const void *data, uint64_t size);
/* Writes the directory if `commit`, and ends the sink either way. */
int zip_finish(zip_writer *z, bool commit);

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count); /* starts from 0 */

#endif
