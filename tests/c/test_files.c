/* test_files.c: the file formats through the public API, hostile archives and pickles, and saves that fail midway. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brisk.h"
#include "core/memory.h"
#include "files/pickle.h"
#include "files/tensors.h"
#include "files/zip.h"
#include "tap.h"

static char directory[] = "/tmp/brisk-files-XXXXXX", path[64];

static bk_tensors *sample(void)
{
    bk_scope_push();
    bk_tensors *m = bk_tensors_new();
    bk_tensor *base = bk_view(bk_arange(0, 12, 1, BK_FLOAT32), 2, (int64_t[]){ 3, 4 });
    bk_tensors_set(m, "layer.weight", base);
    bk_tensors_set(m, "layer.column", bk_select(base, 1, 2));
    bk_tensors_set(m, "half", bk_ones(2, (int64_t[]){ 2, 2 }, BK_FLOAT16));
    bk_tensors_set(m, "steps", bk_full_int(0, NULL, 7, BK_INT64));
    bk_tensors_set(m, "none", bk_zeros(2, (int64_t[]){ 0, 5 }, BK_INT8));
    bk_scope_pop();
    return m;
}

static bool same(const bk_tensor *a, const bk_tensor *b)
{
    bool equal = false;
    return a && b && bk_dtype_of(a) == bk_dtype_of(b) && bk_equal(a, b, &equal) == 0 && equal;
}

static void each_format(void)
{
    static const struct {
        const char *name;
        int (*save)(const char *, const bk_tensors *);
        bk_tensors *(*load)(const char *);
    } formats[] = { { "checkpoints", bk_save, bk_load },
                    { "safetensors", bk_save_safetensors, bk_load_safetensors },
                    { "npz", bk_save_npz, bk_load_npz } };
    for (size_t f = 0; f < 3; f++) {
        bk_tensors *m = sample();
        bool ok = formats[f].save(path, m) == 0;
        bk_tensors *back = ok ? formats[f].load(path) : NULL;
        ok = back && bk_tensors_count(back) == bk_tensors_count(m);
        for (int64_t i = 0; ok && i < bk_tensors_count(m); i++)
            ok = same(bk_tensors_at(m, i), bk_tensors_get(back, bk_tensors_name(m, i)));
        tap_ok(ok, "%s keep names, sizes, dtypes and elements (%s)", formats[f].name, bk_error() ? bk_error() : "");
        if (ok && f == 0) {
            bk_zero_(bk_tensors_get(back, "layer.weight"));
            bk_tensor *sum = bk_sum(bk_tensors_get(back, "layer.column"), 0, false);
            tap_ok(bk_item(sum) == 0, "tensors that share memory share it after loading");
            bk_release(sum);
        }
        tap_ok(!bk_tensors_get(back, "nobody") && bk_error_code() == BK_INDEX_ERROR, "a name that is not there");
        bk_error_clear();
        bk_tensors_free(back);
        bk_tensors_free(m);
    }
}

static void one_array(void)
{
    bk_scope_push();
    bk_tensor *t = bk_transpose(bk_view(bk_arange_int(0, 6, 1, BK_INT32), 2, (int64_t[]){ 2, 3 }), 0, 1);
    tap_ok(bk_save_npy(path, t) == 0 && same(bk_load_npy(path), t), "npy keeps a transposed array");
    tap_ok(bk_save_npy(path, bk_ones(1, (int64_t[]){ 1 }, BK_BFLOAT16)) < 0 && bk_error_code() == BK_TYPE_ERROR,
           "npy has no bfloat16");
    bk_error_clear();
    bk_scope_pop();
}

static void atomic_saves(void)
{
    bk_tensors *m = sample();
    bk_save(path, m);
    struct stat before, after;
    stat(path, &before);
    int64_t failures = 0;
    for (int64_t n = 1; n < 60; n++) { /* whatever allocation fails, the old file stays */
        mem_fail_after(n);
        int status = bk_save(path, m);
        mem_fail_after(0);
        bk_error_clear();
        if (status == 0)
            break;
        failures += stat(path, &after) == 0 && after.st_ino == before.st_ino && after.st_size == before.st_size;
        if (failures != n)
            break;
    }
    bk_tensors *back = bk_load(path);
    tap_ok(failures > 3 && back, "a save that fails leaves the old file (%lld failures)", (long long)failures);
    bk_tensors_free(back);
    char link[80];
    snprintf(link, sizeof link, "%s/link", directory);
    tap_ok(symlink(path, link) == 0 && bk_save(link, m) == 0 && lstat(link, &after) == 0 && S_ISLNK(after.st_mode),
           "a save through a symbolic link keeps the link");
    unlink(link);
    tap_ok(bk_save("/nowhere/x.pt", m) < 0 && strstr(bk_error(), "/nowhere/x.pt"), "an error names the file");
    bk_error_clear();
    bk_tensors_free(m);
}

/* --- archives that lie
 * ------------------------------------------------------------------------------------------------- */

static int collect(void *context, const void *bytes, size_t count) { return buffer_add(context, bytes, count); }

static buffer archive(void)
{
    buffer b = { 0 };
    zip_writer z = { .out = sink_of_callback(collect, &b) };
    zip_add(&z, "a/data.pkl", "\x80\x02}.", 4);
    zip_add(&z, "a/data/0", "0123456789abcdef", 16);
    zip_finish(&z, true);
    return b;
}

static bool opens(const buffer *b)
{
    zip_reader z;
    bool ok = zip_open(&z, source_of_memory(b->bytes, b->count)) == 0;
    for (int64_t i = 0; ok && i < z.count; i++) {
        void *data = zip_read_all(&z, &z.entries[i]);
        ok = data != NULL;
        mem_free(data);
        if (!ok)
            zip_close(&z);
    }
    if (ok)
        zip_close(&z);
    return ok;
}

/* Offsets count from the end of the archive: its directory is the part that lies. */
static void hostile_archives(void)
{
    enum { SECOND = 46 + 8, END = 22 }; /* the last record of the directory and its name; the end record */
    static const struct {
        const char *name;
        int from_end, width;
        uint64_t value;
    } rows[] = {
        { "a directory outside the file", END - 16, 4, 0x7fffffff },
        { "more records than the directory has room for", END - 10, 2, 3000 },
        { "an entry that begins outside the file", END + SECOND - 42, 4, 0x7fffff },
        { "an entry that begins in the middle of another", END + SECOND - 42, 4, 3 },
        { "two entries in one place", END + SECOND - 42, 4, 0 },
        { "an entry larger than the file", END + SECOND - 24, 4, 100000 },
        { "sizes that differ", END + SECOND - 20, 4, 15 },
        { "a wrong checksum", END + SECOND - 16, 4, 1 },
        { "a compressed entry", END + SECOND - 10, 2, 8 },
        { "an encrypted entry", END + SECOND - 8, 2, 1 },
        { "a zip64 field that is missing", END + SECOND - 24, 4, 0xffffffff },
        { "a name longer than the directory", END + SECOND - 28, 2, 60000 },
        { "a name that leaves the directory", END + 8, 2, 0x2e2e },
        { "a name with a zero", END + 8, 1, 0 },
        { "a name from the root", END + 8, 1, '/' },
    };
    buffer b = archive();
    tap_ok(opens(&b), "the archive is right before anything is changed");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buffer bad = { 0 };
        buffer_add(&bad, b.bytes, b.count);
        if (rows[i].value == 0x2e2e)
            memcpy(bad.bytes + bad.count - rows[i].from_end, "../data/", 8);
        else
            store_le(bad.bytes + bad.count - rows[i].from_end, rows[i].width, rows[i].value);
        bool refused = !opens(&bad);
        tap_ok(refused && bk_error(), "refused: %s (%s)", rows[i].name, refused ? bk_error() : "accepted");
        bk_error_clear();
        buffer_free(&bad);
    }
    int accepted = 0;
    for (size_t n = 0; n < b.count; n++) {
        buffer shorter = { .bytes = b.bytes, .count = n };
        accepted += opens(&shorter);
    }
    bk_error_clear();
    tap_ok(accepted == 0, "refused: the archive cut anywhere");
    buffer_free(&b);
}

/* --- pickles that lie
 * -------------------------------------------------------------------------------------------------- */

static bool loads(const char *pickle, size_t count)
{
    buffer b = { 0 };
    zip_writer z = { .out = sink_of_callback(collect, &b) };
    zip_add(&z, "a/data.pkl", pickle, count);
    zip_add(&z, "a/data/0", "0123456789abcdef", 16);
    zip_finish(&z, true);
    bk_tensors *m = torch_load(source_of_memory(b.bytes, b.count));
    bk_tensors_free(m);
    buffer_free(&b);
    return m != NULL;
}

#define STORAGE(kind, key, count) "(X\x07\0\0\0storagectorch\n" kind "\nX\x01\0\0\0" key "X\x03\0\0\0cpuK" count "tQ"
#define TENSOR(storage, offset, size, stride)                                                                          \
    "\x80\x02}X\x01\0\0\0xctorch._utils\n_rebuild_tensor_v2\n(" storage "K" offset "K" size "\x85K" stride             \
    "\x85\x89}tRs."

static void hostile_pickles(void)
{
    static const struct {
        const char *name, *bytes;
        size_t count;
    } rows[] = {
#define ROW(name, text) { name, text, sizeof(text) - 1 }
        ROW("a function that is called", "cposix\nsystem\nX\x04\0\0\0true\x85R."),
        ROW("a function by protocol 4", "\x80\x04\x8c\x05posix\x8c\x06system\x93)R."),
        ROW("nothing", ""),
        ROW("no end", "\x80\x02}"),
        ROW("an unknown opcode", "\xff."),
        ROW("a later protocol", "\x80\x09}."),
        ROW("an empty stack", "."),
        ROW("a tuple of what is not there", "\x87."),
        ROW("items without a mark", "}u."),
        ROW("a key without a value", "}(Nu."),
        ROW("items for a number", "K\x01(NNu."),
        ROW("a memo that was never written", "h\x05."),
        ROW("a memo of four billion entries", "}r\xff\xff\xff\xff."),
        ROW("a text of four billion bytes", "X\xff\xff\xff\xff"),
        ROW("a text of 2^64 bytes", "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
        ROW("bytes of 2^63 bytes", "\x8e\0\0\0\0\0\0\0\x80"),
        ROW("a number of four billion bytes", "\x8b\xff\xff\xff\x7f"),
        ROW("a name without an end", "cos"),
        ROW("a call of a number", "K\x01)R."),
        ROW("a call of a dtype's storage", "ctorch\nFloatStorage\n)R."),
        ROW("a storage that is no tuple", "}X\x01\0\0\0xK\x01Qs."),
        ROW("a storage that is missing", TENSOR(STORAGE("FloatStorage", "1", "\x04"), "\0", "\x04", "\x01")),
        ROW("a storage that is too short", TENSOR(STORAGE("FloatStorage", "0", "\x05"), "\0", "\x04", "\x01")),
        ROW("a tensor larger than its storage", TENSOR(STORAGE("FloatStorage", "0", "\x04"), "\0", "\x05", "\x01")),
        ROW("a tensor that begins after its storage",
            TENSOR(STORAGE("FloatStorage", "0", "\x04"), "\x05", "\x01", "\x01")),
        ROW("strides that leave the storage", TENSOR(STORAGE("FloatStorage", "0", "\x04"), "\0", "\x04", "\x02")),
        ROW("a list in place of a tensor's sizes", "}X\x01\0\0\0xctorch._utils\n_rebuild_tensor_v2\n(NNNNtRs."),
#undef ROW
    };
    static const char good[] = TENSOR(STORAGE("FloatStorage", "0", "\x04"), "\0", "\x04", "\x01");
    tap_ok(loads(good, sizeof good - 1), "the pickle is right before anything is changed (%s)", bk_error());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool refused = !loads(rows[i].bytes, rows[i].count);
        tap_ok(refused && bk_error(), "refused: %s (%s)", rows[i].name, refused ? bk_error() : "accepted");
        bk_error_clear();
    }
    enum { DEEP = 1000000 };
    char *deep = malloc(DEEP + 1);
    memset(deep, ']', DEEP / 2);
    memset(deep + DEEP / 2, 'a', DEEP / 2);
    deep[DEEP / 2 * 2 - 1] = '.';
    tap_ok(!loads(deep, DEEP), "a million nested lists are no dict, and no stack overflow");
    bk_error_clear();
    free(deep);
    static const char loop[] = "}q\0X\x01\0\0\0ah\0sh\0X\x01\0\0\0bh\0s.";
    tap_ok(loads(loop, sizeof loop - 1), "a dict that holds itself is read once");
}

static void hostile_safetensors(void)
{
    static const char *const headers[] = {
        "",
        "{",
        "[]",
        "{\"a\":1}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F9\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9,9],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"
        "\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
        "\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[4,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} x",
        "{\"a\\ud800\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        unsigned char file[400] = { 0 };
        size_t n = strlen(headers[i]);
        store_le(file, 8, n);
        memcpy(file + 8, headers[i], n);
        bk_tensors *m = safetensors_load(source_of_memory(file, 8 + n + 8));
        tap_ok(!m && bk_error(), "refused: the header %s", headers[i]);
        bk_error_clear();
    }
    unsigned char huge[16] = { 255, 255, 255, 255, 255, 255, 255, 127 };
    tap_ok(!safetensors_load(source_of_memory(huge, sizeof huge)), "refused: a header of 2^63 bytes");
    bk_error_clear();
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/file", directory);
    int64_t live = 0;
    for (int round = 0; round < 2; round++) { /* the second round leaks nothing */
        each_format();
        one_array();
        atomic_saves();
        hostile_archives();
        hostile_pickles();
        hostile_safetensors();
        if (round == 0)
            live = mem_live();
    }
    tap_ok(mem_live() <= live, "nothing leaks: %lld allocations, then %lld", (long long)live, (long long)mem_live());
    unlink(path);
    tap_ok(rmdir(directory) == 0, "no temporary files are left");
    return tap_done();
}
