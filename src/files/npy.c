/* npy.c: NumPy's .npy (one array) and .npz (a zip archive of them).
 *
 *     "\x93NUMPY" 1 0, the length of the header, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * The header is a Python dict, but always this one: it is read word by word, never evaluated. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"
#include "files/tensors.h"
#include "files/zip.h"

enum { HEADER_MOST = 1 << 16 }; /* NumPy's own are below 200 bytes */

static const char *const descriptions[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = "<f4", [BK_FLOAT64] = "<f8", [BK_FLOAT16] = "<f2", [BK_INT64] = "<i8", [BK_INT32] = "<i4",
    [BK_INT16] = "<i2",   [BK_INT8] = "|i1",    [BK_UINT8] = "|u1",   [BK_BOOL] = "|b1",
};

typedef struct npy_header {
    int dtype, ndim;
    bool fortran;
    int64_t sizes[BK_MAX_NDIM];
    uint64_t data_at;
} npy_header;

static int broken(const char *what) { return error_int(BK_VALUE_ERROR, "the .npy file is broken: %s", what); }

/* --- reading
 * ----------------------------------------------------------------------------------------------------------- */

/* What follows 'key': in the header; NULL with the error set. */
static const char *field(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (!p) {
        broken("its header lacks a field");
        return NULL;
    }
    p += strlen(key);
    while (*p == ' ' || *p == ':')
        p++;
    return p;
}

static int read_dtype(const char *p, int *dtype)
{
    for (int d = 0; d < BK_DTYPE_COUNT; d++) {
        size_t n = descriptions[d] ? strlen(descriptions[d]) : 0;
        if (n && (*p == '\'' || *p == '"') && !strncmp(p + 1, descriptions[d], n) && p[n + 1] == *p) {
            *dtype = d;
            return 0;
        }
    }
    return error_int(BK_VALUE_ERROR, "the .npy file holds elements of type %.12s, which brisk does not have", p);
}

/* (), (3,) or (2, 3) */
static int read_sizes(const char *p, npy_header *h)
{
    if (*p++ != '(')
        return broken("its shape is no tuple");
    for (h->ndim = 0;; h->ndim++) {
        while (*p == ' ')
            p++;
        if (*p == ')')
            return 0;
        if (h->ndim == BK_MAX_NDIM)
            return broken("it has more dimensions than brisk");
        if (*p < '0' || *p > '9')
            return broken("a size is no whole number");
        int64_t size = 0;
        for (; *p >= '0' && *p <= '9'; p++)
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *p - '0', &size))
                return broken("a size is too large");
        h->sizes[h->ndim] = size;
        while (*p == 'L' || *p == ' ') /* Python 2's long */
            p++;
        if (*p == ',')
            p++;
        else if (*p != ')')
            return broken("its shape is no tuple");
    }
}

static int read_fields(const char *text, npy_header *h)
{
    const char *descr = field(text, "'descr'"), *order = descr ? field(text, "'fortran_order'") : NULL;
    const char *shape = order ? field(text, "'shape'") : NULL;
    if (!shape || read_dtype(descr, &h->dtype) < 0 || read_sizes(shape, h) < 0)
        return -1;
    h->fortran = !strncmp(order, "True", 4);
    return h->fortran || !strncmp(order, "False", 5) ? 0 : broken("fortran_order is neither True nor False");
}

static int read_header(const source *in, npy_header *h)
{
    unsigned char start[12];
    if (source_read(in, 0, start, 10) < 0)
        return -1;
    if (memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3)
        return broken("it does not begin as one");
    int width = start[6] == 1 ? 2 : 4;
    if (source_read(in, 8, start, (uint64_t)width) < 0)
        return -1;
    uint64_t length = load_le(start, width);
    if (length > HEADER_MOST)
        return broken("its header is longer than 64 KB");
    char *text = mem_alloc(length + 1);
    int status = text ? source_read(in, 8 + (uint64_t)width, text, length) : -1;
    if (status == 0) {
        text[length] = 0;
        h->data_at = 8 + (uint64_t)width + length;
        status = read_fields(text, h);
    }
    mem_free(text);
    return status;
}

typedef struct reading {
    const source *in;
    uint64_t at;
} reading;

static int read_bytes(void *context, void *memory, uint64_t bytes)
{
    const reading *r = context;
    return source_read(r->in, r->at, memory, bytes);
}

static int check_size(const npy_header *h, uint64_t bytes)
{
    int64_t size = (int64_t)bk_dtype_size((bk_dtype)h->dtype);
    for (int d = 0; d < h->ndim; d++)
        if (__builtin_mul_overflow(size, h->sizes[d], &size))
            return broken("its shape is too large");
    return (uint64_t)size == bytes ? 0 : broken("its shape does not go with its length: it may be truncated");
}

/* Column-major elements are the row-major ones of the transpose. */
static bk_tensor *read_array(const source *in)
{
    npy_header h = { 0 };
    if (read_header(in, &h) < 0 || check_size(&h, in->size - h.data_at) < 0)
        return NULL;
    int64_t sizes[BK_MAX_NDIM];
    int dims[BK_MAX_NDIM];
    for (int d = 0; d < h.ndim; d++) {
        dims[d] = h.ndim - 1 - d;
        sizes[d] = h.sizes[h.fortran ? dims[d] : d];
    }
    bk_tensor *t = tensor_filled(h.ndim, sizes, (bk_dtype)h.dtype, read_bytes, &(reading){ in, h.data_at });
    if (!t || !h.fortran)
        return t;
    bk_tensor *turned = scope_own(bk_permute(t, h.ndim, dims));
    bk_release(t);
    return turned;
}

bk_tensor *npy_load(source in)
{
    bk_tensor *t = read_array(&in);
    source_close(&in);
    return t;
}

bk_tensor *bk_load_npy(const char *path)
{
    source in;
    bk_tensor *t = source_open(&in, path) < 0 ? NULL : npy_load(in);
    return t && scope_depth ? scope_add(t) : t;
}

/* "weight.npy" in the archive is the array "weight". */
static int load_entry(bk_tensors *m, const zip_reader *z, const zip_entry *e)
{
    size_t n = strlen(e->name);
    char *name = mem_alloc(n + 1), *bytes = name ? zip_read_all(z, e) : NULL;
    int status = -1;
    if (bytes) {
        memcpy(name, e->name, n + 1);
        if (n > 4 && !strcmp(name + n - 4, ".npy"))
            name[n - 4] = 0;
        source in = source_of_memory(bytes, e->size);
        bk_tensor *t = read_array(&in);
        status = t ? tensors_take(m, name, t) : -1;
    }
    mem_free(name);
    mem_free(bytes);
    return status;
}

bk_tensors *npz_load(source in)
{
    zip_reader z;
    if (zip_open(&z, in) < 0)
        return NULL;
    bk_tensors *m = bk_tensors_new();
    for (int64_t i = 0; m && i < z.count; i++)
        if (load_entry(m, &z, &z.entries[i]) < 0) {
            bk_tensors_free(m);
            m = NULL;
        }
    zip_close(&z);
    return m;
}

bk_tensors *bk_load_npz(const char *path) { return tensors_from_path(path, npz_load); }

/* --- writing
 * ----------------------------------------------------------------------------------------------------------- */

/* The header of t, padded so that the elements begin at a multiple of 64; its length, or -1. */
static int make_header(const bk_tensor *t, char *text, size_t room)
{
    const char *descr = descriptions[bk_dtype_of(t)];
    if (!descr)
        return error_int(BK_TYPE_ERROR, "NumPy's files have no %s: convert the tensor first",
                         bk_dtype_name(bk_dtype_of(t)));
    int n = 10 + snprintf(text + 10, room - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < bk_ndim(t); d++)
        n += snprintf(text + n, room - (size_t)n, "%lld, ", (long long)bk_sizes(t)[d]);
    n += snprintf(text + n, room - (size_t)n, "), }");
    while ((n + 1) % 64)
        text[n++] = ' ';
    text[n++] = '\n';
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    store_le((unsigned char *)text + 8, 2, (uint64_t)n - 10);
    return n;
}

static int put_array(buffer *b, const bk_tensor *t)
{
    char header[512];
    int n = make_header(t, header, sizeof header);
    bk_tensor *hold = NULL;
    uint64_t bytes = 0;
    const void *data = n < 0 ? NULL : tensor_row_major(t, &hold, &bytes);
    int status = !data || buffer_add(b, header, (size_t)n) < 0 ? -1 : buffer_add(b, data, bytes);
    bk_release(hold);
    return status;
}

int bk_save_npy(const char *path, const bk_tensor *t)
{
    buffer b = { 0 };
    sink out;
    if (!t || put_array(&b, t) < 0 || sink_open(&out, path) < 0) {
        buffer_free(&b);
        return -1;
    }
    int status = sink_write(&out, b.bytes, b.count);
    buffer_free(&b);
    return sink_close(&out, status == 0) < 0 ? -1 : status;
}

static int add_array(zip_writer *z, const named_tensor *row)
{
    size_t n = strlen(row->name);
    char *name = mem_alloc(n + 5);
    buffer b = { 0 };
    int status = name ? put_array(&b, row->tensor) : -1;
    if (status == 0) {
        memcpy(name, row->name, n);
        memcpy(name + n, ".npy", 5);
        status = zip_add(z, name, b.bytes, b.count);
    }
    buffer_free(&b);
    mem_free(name);
    return status;
}

int bk_save_npz(const char *path, const bk_tensors *m)
{
    zip_writer z = { 0 };
    if (!m || sink_open(&z.out, path) < 0)
        return -1;
    int status = 0;
    for (size_t i = 0; status == 0 && i < m->count; i++)
        status = add_array(&z, &m->rows[i]);
    return zip_finish(&z, status == 0) < 0 ? -1 : status;
}
