/* fuzz_files.c: libFuzzer over every format that is read. The first byte chooses the format; what follows is the file.
 * `make fuzz-files` builds and runs it. Nothing may crash, leak, or take memory out of proportion. */
#include <stddef.h>
#include <stdint.h>

#include "files/tensors.h"
#include "files/zip.h"

static void ignore(bk_tensors *m) { bk_tensors_free(m); }

static int collect(void *context, const void *bytes, size_t count) { return buffer_add(context, bytes, count); }

/* A pickle in an archive whose checksums are right: mutations of whole archives seldom reach the pickle. */
static void load_pickle(const uint8_t *bytes, size_t count)
{
    buffer b = { 0 };
    zip_writer z = { .out = sink_of_callback(collect, &b) };
    zip_add(&z, "a/data.pkl", bytes, count);
    zip_add(&z, "a/data/0", "0123456789abcdef", 16);
    zip_finish(&z, true);
    ignore(torch_load(source_of_memory(b.bytes, b.count)));
    buffer_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    source in = source_of_memory(data + 1, size - 1);
    switch (data[0] % 5) {
    case 0: load_pickle(data + 1, size - 1); break;
    case 1: ignore(torch_load(in)); break;
    case 2: ignore(safetensors_load(in)); break;
    case 3: bk_release(npy_load(in)); break;
    default: ignore(npz_load(in)); break;
    }
    bk_error_clear();
    return 0;
}
