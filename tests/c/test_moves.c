/* test_moves.c: copies, casts, fills and overlap against loops over single elements. */
#include "core/dtype.h"
#include "cpu/move.h"
#include "sample.h"
#include "tap.h"

static bool same_element(const view *a, const view *b, int64_t i)
{
    return memcmp(view_at(a, i), view_at(b, i), dtype_size(a->dtype)) == 0;
}

static void store_as(bk_dtype to, void *p, bk_dtype from, const void *q)
{
    if (dtype_is_float(from))
        dtype_store_double(to, p, dtype_load_double(from, q));
    else
        dtype_store_int(to, p, dtype_load_int(from, q));
}

/* Elements that dst does not have keep their bytes. */
static bool copies(bk_dtype to, bk_dtype from, int ndim, const int64_t *sizes, bool contiguous, bool broadcast)
{
    sample d = sample_make(to, ndim, sizes, contiguous, false), s = sample_make(from, ndim, sizes, false, true);
    for (int k = 0; k < ndim; k++)
        if (broadcast && sample_int(0, 1))
            s.v.strides[k] = 0;
    char *expected = malloc((size_t)d.bytes);
    memcpy(expected, d.memory, (size_t)d.bytes);
    for (int64_t i = 0, n = view_numel(&d.v); i < n; i++)
        store_as(to, expected + (view_at(&d.v, i) - d.memory), from, view_at(&s.v, i));
    move_copy(&d.v, &s.v);
    bool right = memcmp(expected, d.memory, (size_t)d.bytes) == 0;
    free(expected);
    sample_free(&d);
    sample_free(&s);
    return right;
}

static bool copies_random(bk_dtype to, bk_dtype from, int tries)
{
    bool right = true;
    for (int i = 0; i < tries; i++) {
        int64_t sizes[BK_MAX_NDIM];
        int ndim = sample_sizes(sizes);
        right &= copies(to, from, ndim, sizes, sample_int(0, 1), sample_int(0, 2) == 0);
    }
    return right;
}

static void test_casts(void)
{
    for (int to = 0; to < BK_DTYPE_COUNT; to++) {
        bool right = true;
        for (int from = 0; from < BK_DTYPE_COUNT; from++)
            right &= copies_random((bk_dtype)to, (bk_dtype)from, to == from ? 300 : 40);
        tap_ok(right, "copies of any strides and dtype into %s give what single casts give", dtypes[to].name);
    }
}

static bool all_halves(bool half)
{
    bool right = true;
    bk_dtype t = half ? BK_FLOAT16 : BK_BFLOAT16;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t bits = (uint16_t)h;
        float f;
        view from = { .data = (char *)&bits, .dtype = t }, to = { .data = (char *)&f, .dtype = BK_FLOAT32 };
        move_copy(&to, &from);
        float e = half ? half_to_float(bits) : bfloat_to_float(bits);
        right &= memcmp(&f, &e, 4) == 0;
        for (int i = -1; i <= 1; i++) { /* values around, and between two halves */
            uint32_t u;
            memcpy(&u, &f, 4);
            u += (uint32_t)i + (uint32_t)sample_int(0, 3) * 0x800;
            memcpy(&e, &u, 4);
            uint16_t got;
            view a = { .data = (char *)&e, .dtype = BK_FLOAT32 }, b = { .data = (char *)&got, .dtype = t };
            move_copy(&b, &a);
            right &= got == (half ? half_from_float(e) : bfloat_from_float(e));
        }
    }
    return right;
}

static void test_transpose(void)
{
    bool right = true;
    for (int t = 0; t < BK_DTYPE_COUNT; t++)
        for (int i = 0; i < 40; i++) {
            int64_t sizes[3] = { sample_int(1, 4), sample_int(1, 150), sample_int(1, 150) };
            sample d = sample_make((bk_dtype)t, 3, sizes, true, false);
            sample s = sample_make((bk_dtype)t, 3, (int64_t[]){ sizes[0], sizes[2], sizes[1] }, true, false);
            view turned = { s.v.data, s.v.dtype, 3, { sizes[0], sizes[1], sizes[2] }, { s.v.strides[0], 1, sizes[1] } };
            move_copy(&d.v, &turned);
            for (int64_t k = 0, n = view_numel(&d.v); k < n; k++)
                right &= same_element(&d.v, &turned, k);
            sample_free(&d);
            sample_free(&s);
        }
    tap_ok(right, "transposed matrices of any size and dtype are copied element by element");
}

/* A rows x cols destination, rows `pitch` elements apart, from a source whose columns are `gap` elements apart. */
static bool turns(bk_dtype dtype, int64_t rows, int64_t cols, int64_t pitch, int64_t gap)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    const int64_t source_bytes = (cols * gap + 63) * size / 64 * 64,
                  target_bytes = (rows * pitch + 63) * size / 64 * 64;
    char *from = aligned_alloc(64, (size_t)source_bytes), *to = aligned_alloc(64, (size_t)target_bytes);
    for (int64_t i = 0; i < source_bytes; i++)
        from[i] = (char)(sample_bits() % 120);
    memset(to, 121, (size_t)target_bytes);
    view d = { to, dtype, 2, { rows, cols }, { pitch, 1 } }, s = { from, dtype, 2, { rows, cols }, { 1, gap } };
    move_copy(&d, &s);
    bool right = true;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++)
            right &= memcmp(to + (i * pitch + j) * size, from + (i + j * gap) * size, (size_t)size) == 0;
        for (int64_t j = cols * size; j < pitch * size && i < rows - 1; j++)
            right &= to[i * pitch * size + j] == 121;
    }
    free(from);
    free(to);
    return right;
}

static void test_large_transpose(void)
{
    static const bk_dtype dtypes_turned[] = { BK_FLOAT32, BK_FLOAT64 };
    bool whole = true, ragged = true, around = true;
    for (int t = 0; t < 2; t++) {
        const bk_dtype dtype = dtypes_turned[t];
        whole &= turns(dtype, 1024, 1088, 1088, 1024);  /* past the caches: on lines and above 4 MB */
        whole &= turns(dtype, 1040, 1024, 1152, 4096);  /* and with gaps on both sides */
        ragged &= turns(dtype, 1031, 1045, 1056, 1031); /* past the caches, with edges on all sides */
        ragged &= turns(dtype, 1031, 1045, 1045, 2048); /* rows off the lines */
        for (int64_t rows = 4; rows < 36; rows++)
            for (int64_t cols = 4; cols < 36; cols++)
                around &= turns(dtype, rows, cols, cols + rows % 3, rows + cols % 5);
    }
    tap_ok(whole, "a large transposition writes whole lines and nothing beside them");
    tap_ok(ragged, "a large transposition of ragged edges is right to the last element");
    tap_ok(around, "transpositions around the size of a square in registers touch nothing beside it");
}

static void test_fill(void)
{
    bool right = true;
    for (int i = 0; i < 600; i++) {
        bk_dtype t = (bk_dtype)(i % BK_DTYPE_COUNT);
        int64_t sizes[BK_MAX_NDIM];
        int ndim = sample_sizes(sizes);
        sample s = sample_make(t, ndim, sizes, false, false);
        char element[8];
        sample_element(t, element, false);
        move_fill(&s.v, element);
        for (int64_t k = 0, n = view_numel(&s.v); k < n; k++)
            right &= memcmp(view_at(&s.v, k), element, dtype_size(t)) == 0;
        sample_free(&s);
    }
    tap_ok(right, "a fill writes its element everywhere in the view");
}

static bool really_overlap(const view *a, const view *b)
{
    int64_t size_a = (int64_t)dtype_size(a->dtype), size_b = (int64_t)dtype_size(b->dtype);
    for (int64_t i = 0, n = view_numel(a); i < n; i++)
        for (int64_t j = 0, m = view_numel(b); j < m; j++) {
            char *p = view_at(a, i), *q = view_at(b, j);
            if (p < q + size_b && q < p + size_a)
                return true;
        }
    return false;
}

static void test_overlap(void)
{
    static char memory[1024];
    bool safe = true, exact = true;
    for (int i = 0; i < 5000; i++) {
        view a = { .data = memory + 512, .dtype = BK_FLOAT32, .ndim = (int)sample_int(1, 3) };
        for (int d = 0; d < a.ndim; d++) {
            a.sizes[d] = sample_int(1, 4);
            a.strides[d] = sample_int(-10, 10);
        }
        view b = a;
        b.data += 4 * sample_int(-12, 12);
        bool same = sample_int(0, 1);
        for (int d = 0; d < b.ndim && !same; d++)
            b.strides[d] = sample_int(-10, 10);
        safe &= move_overlaps(&a, &b) || !really_overlap(&a, &b);
        view grid = { memory, BK_FLOAT32, 2, { sample_int(1, 4), sample_int(1, 4) }, { 8, sample_int(1, 2) } };
        view moved = grid;
        moved.data += 4 * sample_int(0, 40);
        exact &= move_overlaps(&grid, &moved) == really_overlap(&grid, &moved);
    }
    tap_ok(safe, "views that share a byte are always said to overlap");
    tap_ok(exact, "blocks of one matrix are said to overlap only if they do");
    view even = { memory, BK_INT64, 1, { 10 }, { 2 } }, odd = { memory + 8, BK_INT64, 1, { 9 }, { 2 } };
    tap_ok(!move_overlaps(&even, &odd), "x[::2] and x[1::2] do not overlap");
}

static void test_collapse(void)
{
    view a = { NULL, BK_FLOAT32, 4, { 2, 1, 3, 4 }, { 12, 7, 4, 1 } }, b = a;
    tap_ok(views_collapse((view *[]){ &a, &b }, 2) == 1 && a.sizes[0] == 24 && a.strides[0] == 1,
           "contiguous dimensions collapse into one");
    view c = { NULL, BK_FLOAT32, 2, { 3, 4 }, { 4, 1 } }, d = { NULL, BK_FLOAT32, 2, { 3, 4 }, { 0, 1 } };
    tap_ok(views_collapse((view *[]){ &c, &d }, 2) == 2, "dimensions that one view does not walk as one stay apart");
}

int main(void)
{
    test_casts();
    tap_ok(all_halves(true), "float16 converts as dtype.c converts it, for all values");
    tap_ok(all_halves(false), "bfloat16 converts as dtype.c converts it, for all values");
    test_transpose();
    test_large_transpose();
    test_fill();
    test_overlap();
    test_collapse();
    return tap_done();
}
