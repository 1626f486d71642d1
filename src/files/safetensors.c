/* safetensors.c: the safetensors format: the length of a header, the header in JSON, the tensors' bytes.
 *
 *     {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"format": "pt"}}
 *
 * A file is accepted when the tensors cover the bytes after the header without gaps or overlaps, each once, as the
 * format demands. The JSON is read by a parser for just this shape: there is nothing to nest, so nothing recurses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "files/tensors.h"

enum { HEADER_MOST = 100000000 }; /* the format's own limit */

static const char *const dtype_names[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = "F32", [BK_FLOAT64] = "F64", [BK_FLOAT16] = "F16", [BK_BFLOAT16] = "BF16", [BK_INT64] = "I64",
    [BK_INT32] = "I32",   [BK_INT16] = "I16",   [BK_INT8] = "I8",     [BK_UINT8] = "U8",      [BK_BOOL] = "BOOL",
};

/* --- JSON ------------------------------------------------------------------------------------------------------------
 */

typedef struct json {
    char *at; /* ends with a 0 */
    bool failed;
} json;

static void *broken(const char *what)
{
    return error_null(BK_VALUE_ERROR, "the safetensors header is broken: %s", what);
}

static bool fail(json *j, const char *what)
{
    if (!j->failed)
        broken(what);
    j->failed = true;
    return false;
}

static void skip_space(json *j)
{
    while (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t')
        j->at++;
}

/* Whether the character comes next; it is passed then. */
static bool next_is(json *j, char c)
{
    skip_space(j);
    if (j->failed || *j->at != c)
        return false;
    j->at++;
    return true;
}

static bool expect(json *j, char c) { return next_is(j, c) || fail(j, "a character is not where JSON wants it"); }

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The four digits of \uXXXX; -1 when they are none. */
static int read_unit(const char *p)
{
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* What follows a backslash, to *to; surrogates come in pairs. */
static bool read_escape(json *j, char **to)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = *j->at;
    const char *found = c ? strchr(escapes, c) : NULL;
    if (found) {
        j->at++;
        *(*to)++ = meanings[found - escapes];
        return true;
    }
    int unit = c == 'u' ? read_unit(j->at + 1) : -1;
    if (unit <= 0)
        return fail(j, "an escape in a text is unknown");
    j->at += 5;
    uint32_t code = (uint32_t)unit;
    if (unit >= 0xd800 && unit < 0xe000) {
        int low = unit < 0xdc00 && j->at[0] == '\\' && j->at[1] == 'u' ? read_unit(j->at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return fail(j, "half a surrogate pair");
        j->at += 6;
        code = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return true;
}

/* A text, decoded in place: no escape is longer than what it stands for. "" with the failure noted otherwise. */
static const char *read_text(json *j)
{
    if (!expect(j, '"'))
        return "";
    char *start = j->at, *to = start;
    while (*j->at != '"') {
        if ((unsigned char)*j->at < 0x20)
            return fail(j, "a text has no end"), "";
        if (*j->at != '\\')
            *to++ = *j->at++;
        else if (j->at++, !read_escape(j, &to))
            return "";
    }
    j->at++;
    *to = 0;
    return start;
}

static int64_t read_number(json *j)
{
    skip_space(j);
    if (*j->at < '0' || *j->at > '9')
        return fail(j, "a size or offset is no whole number"), 0;
    int64_t value = 0;
    for (; *j->at >= '0' && *j->at <= '9'; j->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *j->at - '0', &value))
            return fail(j, "a number is too large"), 0;
    return value;
}

/* [1, 2, 3]: how many, at most `most`. */
static int read_numbers(json *j, int64_t *out, int most)
{
    int n = 0;
    if (!expect(j, '[') || next_is(j, ']'))
        return 0;
    do {
        if (n == most)
            return fail(j, "a list of numbers is too long"), 0;
        out[n++] = read_number(j);
    } while (next_is(j, ','));
    expect(j, ']');
    return n;
}

/* --- the header ------------------------------------------------------------------------------------------------------
 */

typedef struct piece {
    const char *name; /* in the header's memory */
    int dtype, ndim;
    int64_t sizes[BK_MAX_NDIM], offsets[2];
} piece;

static int find_dtype(json *j, const char *name)
{
    for (int d = 0; d < BK_DTYPE_COUNT; d++)
        if (!strcmp(name, dtype_names[d]))
            return d;
    if (!j->failed)
        error_int(BK_VALUE_ERROR, "the safetensors file has a tensor of dtype %.20s, which brisk does not have", name);
    j->failed = true;
    return 0;
}

static void read_piece(json *j, piece *p)
{
    int fields = 0;
    expect(j, '{');
    do {
        const char *key = read_text(j);
        expect(j, ':');
        if (!strcmp(key, "dtype")) {
            p->dtype = find_dtype(j, read_text(j));
            fields |= 1;
        } else if (!strcmp(key, "shape")) {
            p->ndim = read_numbers(j, p->sizes, BK_MAX_NDIM);
            fields |= 2;
        } else if (!strcmp(key, "data_offsets") && read_numbers(j, p->offsets, 2) == 2) {
            fields |= 4;
        } else {
            fail(j, "a tensor has a field that is unknown");
        }
    } while (!j->failed && next_is(j, ','));
    expect(j, '}');
    if (!j->failed && fields != 7)
        fail(j, "a tensor lacks dtype, shape or data_offsets");
}

static void skip_metadata(json *j)
{
    expect(j, '{');
    if (next_is(j, '}'))
        return;
    do {
        read_text(j);
        expect(j, ':');
        read_text(j);
    } while (!j->failed && next_is(j, ','));
    expect(j, '}');
}

/* The pieces of a header, in its order; NULL with the error set. */
static piece *read_header(char *header, size_t *count)
{
    json j = { .at = header };
    piece *pieces = mem_alloc(sizeof *pieces);
    size_t room = 1;
    *count = 0;
    expect(&j, '{');
    bool more = pieces && !j.failed && !next_is(&j, '}');
    for (bool first = true; more && !j.failed; first = false) {
        if (!first && !next_is(&j, ','))
            break;
        piece *grown = array_grow(pieces, &room, *count + 1, sizeof *pieces);
        if (!grown) {
            j.failed = true;
            break;
        }
        pieces = grown;
        piece *p = &pieces[*count];
        *p = (piece){ .name = read_text(&j) };
        expect(&j, ':');
        if (!strcmp(p->name, "__metadata__")) {
            skip_metadata(&j);
        } else {
            read_piece(&j, p);
            ++*count;
        }
    }
    if (more)
        expect(&j, '}');
    skip_space(&j);
    if (!j.failed && *j.at)
        fail(&j, "something follows it");
    if (pieces && !j.failed)
        return pieces;
    mem_free(pieces);
    return NULL;
}

static int by_offset(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int order = (x->offsets[0] > y->offsets[0]) - (x->offsets[0] < y->offsets[0]);
    return order ? order : (x->offsets[1] > y->offsets[1]) - (x->offsets[1] < y->offsets[1]);
}

static int check_pieces(piece *pieces, size_t count, uint64_t bytes)
{
    qsort(pieces, count, sizeof *pieces, by_offset);
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const piece *p = &pieces[i];
        int64_t size = (int64_t)bk_dtype_size((bk_dtype)p->dtype);
        for (int d = 0; d < p->ndim; d++)
            if (__builtin_mul_overflow(size, p->sizes[d], &size))
                return broken("a shape is too large"), -1;
        if (p->offsets[0] != end || p->offsets[1] < end || p->offsets[1] - end != size)
            return broken("a tensor's offsets do not go with its shape and the tensor before it"), -1;
        end = p->offsets[1];
    }
    if ((uint64_t)end != bytes)
        return broken("the tensors do not cover the file: it may be truncated"), -1;
    return 0;
}

/* --- tensors
 * ---------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const source *in;
    uint64_t at;
} reading;

static int read_bytes(void *context, void *memory, uint64_t bytes)
{
    const reading *r = context;
    return source_read(r->in, r->at, memory, bytes);
}

static bk_tensors *load_pieces(const source *in, const piece *pieces, size_t count, uint64_t start)
{
    bk_tensors *m = bk_tensors_new();
    for (size_t i = 0; m && i < count; i++) {
        const piece *p = &pieces[i];
        reading r = { in, start + (uint64_t)p->offsets[0] };
        bk_tensor *t = tensor_filled(p->ndim, p->sizes, (bk_dtype)p->dtype, read_bytes, &r);
        if (!t || tensors_take(m, p->name, t) < 0 || m->count != i + 1) {
            if (t && m->count != i + 1)
                broken("two tensors have one name");
            bk_tensors_free(m);
            m = NULL;
        }
    }
    return m;
}

static bk_tensors *load(const source *in)
{
    unsigned char length_bytes[8];
    if (source_read(in, 0, length_bytes, 8) < 0)
        return NULL;
    uint64_t length = load_le(length_bytes, 8);
    if (length > HEADER_MOST || length > in->size - 8)
        return broken("it is longer than the file or than 100 MB");
    char *header = mem_alloc(length + 1);
    if (!header || source_read(in, 8, header, length) < 0) {
        mem_free(header);
        return NULL;
    }
    header[length] = 0;
    size_t count = 0;
    piece *pieces = strlen(header) == length ? read_header(header, &count) : broken("there is a 0 in it");
    bk_tensors *m = NULL;
    if (pieces && check_pieces(pieces, count, in->size - 8 - length) == 0)
        m = load_pieces(in, pieces, count, 8 + length);
    mem_free(pieces);
    mem_free(header);
    return m;
}

bk_tensors *safetensors_load(source in)
{
    bk_tensors *m = load(&in);
    source_close(&in);
    return m;
}

bk_tensors *bk_load_safetensors(const char *path) { return tensors_from_path(path, safetensors_load); }

/* --- saving
 * ----------------------------------------------------------------------------------------------------------- */

static int put(buffer *b, const char *text) { return buffer_add(b, text, strlen(text)); }

static int put_string(buffer *b, const char *text)
{
    int status = put(b, "\"");
    for (; status == 0 && *text; text++) {
        char escape[8] = { *text };
        if ((unsigned char)*text < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", *text);
        else if (*text == '"' || *text == '\\')
            snprintf(escape, sizeof escape, "\\%c", *text);
        status = put(b, escape);
    }
    return status < 0 ? -1 : put(b, "\"");
}

static int put_metadata(buffer *b, const char *const *metadata)
{
    int status = put(b, "\"__metadata__\":{");
    for (size_t i = 0; status == 0 && metadata[i]; i += 2)
        status = (i && put(b, ",") < 0) || put_string(b, metadata[i]) < 0 || put(b, ":") < 0 ||
                         put_string(b, metadata[i + 1]) < 0
                     ? -1
                     : 0;
    return status < 0 ? -1 : put(b, "}");
}

static int put_piece(buffer *b, const named_tensor *row, uint64_t *end)
{
    char text[600];
    const bk_tensor *t = row->tensor;
    uint64_t start = *end;
    *end += (uint64_t)bk_numel(t) * bk_dtype_size(bk_dtype_of(t));
    int n = snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_names[bk_dtype_of(t)]);
    for (int d = 0; d < bk_ndim(t); d++)
        n += snprintf(text + n, sizeof text - (size_t)n, d ? ",%lld" : "%lld", (long long)bk_sizes(t)[d]);
    snprintf(text + n, sizeof text - (size_t)n, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)start,
             (unsigned long long)*end);
    return put_string(b, row->name) < 0 ? -1 : put(b, text);
}

/* The header is padded with spaces so that the tensors begin at a multiple of eight. */
static int make_header(buffer *b, const bk_tensors *m, const char *const *metadata)
{
    uint64_t end = 0;
    int status = put(b, "{");
    if (status == 0 && metadata && metadata[0])
        status = put_metadata(b, metadata) < 0 ? -1 : m->count ? put(b, ",") : 0;
    for (size_t i = 0; status == 0 && i < m->count; i++)
        status = (i && put(b, ",") < 0) ? -1 : put_piece(b, &m->rows[i], &end);
    if (status == 0)
        status = put(b, "}");
    while (status == 0 && b->count % 8)
        status = put(b, " ");
    return status;
}

static int save(const bk_tensors *m, const char *const *metadata, sink *out)
{
    buffer header = { 0 };
    unsigned char length[8];
    int status = make_header(&header, m, metadata);
    store_le(length, 8, header.count);
    if (status == 0)
        status = sink_write(out, length, 8) < 0 ? -1 : sink_write(out, header.bytes, header.count);
    buffer_free(&header);
    for (size_t i = 0; status == 0 && i < m->count; i++) {
        bk_tensor *hold;
        uint64_t bytes;
        const void *data = tensor_row_major(m->rows[i].tensor, &hold, &bytes);
        status = data ? sink_write(out, data, bytes) : -1;
        bk_release(hold);
    }
    return status;
}

int safetensors_save(const bk_tensors *m, const char *const *metadata, sink out)
{
    int status = save(m, metadata, &out);
    return sink_close(&out, status == 0) < 0 ? -1 : status;
}

int bk_save_safetensors(const char *path, const bk_tensors *m)
{
    sink out;
    return !m || sink_open(&out, path) < 0 ? -1 : safetensors_save(m, NULL, out);
}
