/* mutate_files.c: what fuzz_files.c runs, on valid files with bytes changed at random: for compilers without libFuzzer,
 * and in every run of the tests, under the sanitizers too. The same files in every run. */
#include <string.h>

#include "../c/tap.h"
#include "core/memory.h"
#include "files/tensors.h"
#include "files/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEEDS = 5, ROUNDS = 30000 };

static int collect(void *context, const void *bytes, size_t count) { return buffer_add(context, bytes, count); }

static uint64_t state = 1;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* The seed of each format, its number first. */
static void make_seeds(buffer *seeds)
{
    bk_tensors *m = bk_tensors_new();
    bk_scope_push();
    bk_tensors_set(m, "a", bk_arange(0, 4, 1, BK_FLOAT32));
    bk_tensors_set(m, "b.c", bk_ones(2, (int64_t[]){ 2, 2 }, BK_INT16));
    bk_scope_pop();
    for (unsigned char i = 0; i < SEEDS; i++)
        buffer_add(&seeds[i], &i, 1);
    torch_save(m, sink_of_callback(collect, &seeds[1]));
    safetensors_save(m, (const char *const[]){ "key", "value", NULL }, sink_of_callback(collect, &seeds[2]));
    bk_tensors_free(m);

    zip_reader z;
    zip_open(&z, source_of_memory(seeds[1].bytes + 1, seeds[1].count - 1));
    const zip_entry *e = zip_find(&z, "archive/data.pkl");
    void *pickle = zip_read_all(&z, e);
    buffer_add(&seeds[0], pickle, e->size);
    mem_free(pickle);
    zip_close(&z);

    static const char header[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }\n";
    unsigned char start[10] = "\x93NUMPY\1";
    store_le(start + 8, 2, sizeof header - 1);
    buffer_add(&seeds[3], start, sizeof start);
    buffer_add(&seeds[3], header, sizeof header - 1);
    buffer_add(&seeds[3], "12345678", 8);
    zip_writer w = { .out = sink_of_callback(collect, &seeds[4]) };
    zip_add(&w, "x.npy", seeds[3].bytes + 1, seeds[3].count - 1);
    zip_finish(&w, true);
}

static void mutate(buffer *b)
{
    static const unsigned char telling[] = { 0, 1, 127, 128, 255, '.', '(', ')', ']', '}', 'u', 'R', 'b', 'Q', 'c' };
    for (uint32_t n = 1 + draw(6); n && b->count > 1; n--) {
        size_t at = 1 + draw((uint32_t)b->count - 1), rest = b->count - at, some = 1 + draw(8);
        switch (draw(5)) {
        case 0: b->bytes[at] = (unsigned char)draw(256); break;
        case 1: b->bytes[at] = telling[draw(sizeof telling)]; break;
        case 2: memset(b->bytes + at, draw(2) ? 255 : 0, some < rest ? some : rest); break;
        case 3: /* cut some out */
            some = some < rest ? some : rest;
            memmove(b->bytes + at, b->bytes + at + some, rest - some);
            b->count -= some;
            break;
        default: b->count = draw(8) ? b->count : at; break;
        }
    }
}

int main(void)
{
    buffer seeds[SEEDS] = { 0 };
    make_seeds(seeds);
    for (int i = 0; i < SEEDS; i++) {
        bk_tensors *whole =
            i == 1 || i == 4
                ? (i == 1 ? torch_load : npz_load)(source_of_memory(seeds[i].bytes + 1, seeds[i].count - 1))
                : NULL;
        tap_ok(whole || (i != 1 && i != 4), "format %d: the file is right before it is changed", i);
        bk_tensors_free(whole);
        LLVMFuzzerTestOneInput(seeds[i].bytes, seeds[i].count);
        int64_t live = mem_live();
        for (int round = 0; round < ROUNDS; round++) {
            buffer b = { 0 };
            buffer_add(&b, seeds[i].bytes, seeds[i].count);
            mutate(&b);
            LLVMFuzzerTestOneInput(b.bytes, b.count);
            buffer_free(&b);
        }
        tap_ok(mem_live() <= live + 100, "format %d: %d broken files are read without harm or leaks (%lld)", i, ROUNDS,
               (long long)(mem_live() - live));
        buffer_free(&seeds[i]);
    }
    return tap_done();
}
