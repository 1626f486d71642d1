/* test_index.c: gather, scatter, slices, advanced indexing and masks against plain loops. */
#include "cpu/index.h"
#include "sample.h"
#include "tap.h"

static bool same_bytes(const sample *a, const sample *b) { return memcmp(a->memory, b->memory, (size_t)a->bytes) == 0; }

/* A second sample of the same layout and content. */
static sample twin(const sample *s)
{
    sample t = *s;
    t.memory = malloc((size_t)s->bytes);
    memcpy(t.memory, s->memory, (size_t)s->bytes);
    t.v.data = t.memory + (s->v.data - s->memory);
    return t;
}

static sample random_index(int ndim, const int64_t *sizes, int64_t size, bool negative)
{
    sample s = sample_make(BK_INT64, ndim, sizes, sample_int(0, 1), false);
    for (int64_t i = 0, n = view_numel(&s.v); i < n; i++)
        *(int64_t *)view_at(&s.v, i) = sample_int(negative ? -size : 0, size - 1);
    return s;
}

static void coordinates(const view *v, int64_t flat, int64_t *at)
{
    for (int d = v->ndim - 1; d >= 0; d--) {
        at[d] = flat % v->sizes[d];
        flat /= v->sizes[d];
    }
}

static char *at_coordinates(const view *v, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < v->ndim; d++)
        offset += at[d] * v->strides[d];
    return v->data + offset * (int64_t)dtype_size(v->dtype);
}

static void join_naive(bk_dtype t, scatter_mode mode, char *d, const char *s)
{
    if (mode == SCATTER_SET) {
        memcpy(d, s, dtype_size(t));
        return;
    }
    double a = dtype_load_double(t, d), b = dtype_load_double(t, s);
    double r = mode == SCATTER_ADD    ? a + b
               : mode == SCATTER_MUL  ? a * b
               : mode == SCATTER_AMAX ? (a > b || isnan(a) ? a : b)
                                      : (a < b || isnan(a) ? a : b);
    if (dtype_is_float(t))
        dtype_store_double(t, d, r);
    else if (mode == SCATTER_MUL)
        dtype_store_int(t, d, (int64_t)((uint64_t)dtype_load_int(t, d) * (uint64_t)dtype_load_int(t, s)));
    else
        dtype_store_int(t, d, dtype_load_int(t, d) * (mode == SCATTER_ADD) + (int64_t)(mode == SCATTER_ADD ? b : r));
}

static int64_t wrap(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

static bool gathers(bk_dtype t)
{
    int64_t sizes[3] = { sample_int(1, 6), sample_int(1, 40), sample_int(1, 6) }, wanted[3], at[3];
    int dim = (int)sample_int(0, 2);
    for (int d = 0; d < 3; d++)
        wanted[d] = d == dim ? sample_int(0, 50) : sample_int(1, sizes[d]);
    sample s = sample_make(t, 3, sizes, sample_int(0, 1), true), index = random_index(3, wanted, sizes[dim], true);
    sample d = sample_make(t, 3, wanted, sample_int(0, 1), true), e = twin(&d);
    for (int64_t i = 0, n = view_numel(&e.v); i < n; i++) {
        coordinates(&e.v, i, at);
        at[dim] = wrap(view_int(&index.v, i), sizes[dim]);
        memcpy(view_at(&e.v, i), at_coordinates(&s.v, at), dtype_size(t));
    }
    index_gather(&d.v, &s.v, dim, &index.v);
    bool right = same_bytes(&d, &e);
    sample_free(&s);
    sample_free(&index);
    sample_free(&d);
    sample_free(&e);
    return right;
}

static bool scatters(bk_dtype t, scatter_mode mode)
{
    int64_t sizes[3] = { sample_int(1, 6), sample_int(1, 20), sample_int(1, 6) }, given[3], at[3];
    int dim = (int)sample_int(0, 2);
    for (int d = 0; d < 3; d++)
        given[d] = d == dim ? sample_int(0, 30) : sample_int(1, sizes[d]);
    sample d = sample_make(t, 3, sizes, sample_int(0, 1), false), e = twin(&d);
    sample index = random_index(3, given, sizes[dim], true), s = sample_make(t, 3, given, sample_int(0, 1), false);
    for (int64_t i = 0, n = view_numel(&s.v); i < n; i++) {
        coordinates(&s.v, i, at);
        at[dim] = wrap(view_int(&index.v, i), sizes[dim]);
        join_naive(t, mode, at_coordinates(&e.v, at), view_at(&s.v, i));
    }
    index_scatter(&d.v, dim, &index.v, &s.v, mode);
    bool right = same_bytes(&d, &e);
    sample_free(&s);
    sample_free(&index);
    sample_free(&d);
    sample_free(&e);
    return right;
}

static bool slices_right(bk_dtype t, bool adding)
{
    int64_t many[3] = { sample_int(1, 9), sample_int(1, 9), sample_int(1, 9) }, at[3];
    int dim = (int)sample_int(0, 2);
    int64_t few[3] = { many[0], many[1], many[2] };
    few[dim] = sample_int(0, 20);
    sample whole = sample_make(t, 3, many, sample_int(0, 1), false),
           part = sample_make(t, 3, few, sample_int(0, 1), false);
    sample index = random_index(1, &few[dim], many[dim], true), e = twin(adding ? &whole : &part);
    for (int64_t i = 0, n = view_numel(&part.v); i < n; i++) {
        coordinates(&part.v, i, at);
        at[dim] = wrap(view_int(&index.v, at[dim]), many[dim]);
        if (adding)
            join_naive(t, SCATTER_ADD, at_coordinates(&e.v, at), view_at(&part.v, i));
        else
            memcpy(view_at(&e.v, i), at_coordinates(&whole.v, at), dtype_size(t));
    }
    if (adding)
        index_add(&whole.v, dim, &index.v, &part.v);
    else
        index_select(&part.v, &whole.v, dim, &index.v);
    bool right = same_bytes(adding ? &whole : &part, &e);
    sample_free(&whole);
    sample_free(&part);
    sample_free(&index);
    sample_free(&e);
    return right;
}

/* mode 0: get, 1: put, 2: put with accumulate. */
static bool advanced_right(bk_dtype t, int mode)
{
    int lead = (int)sample_int(1, 2), count = (int)sample_int(1, 2), rest = (int)sample_int(0, 2);
    int64_t whole_sizes[4], part_sizes[4], at[4], place[4];
    for (int d = 0; d < count + rest; d++)
        whole_sizes[d] = sample_int(1, 7);
    for (int d = 0; d < lead; d++)
        part_sizes[d] = sample_int(0, 20);
    for (int d = 0; d < rest; d++)
        part_sizes[lead + d] = whole_sizes[count + d];
    sample whole = sample_make(t, count + rest, whole_sizes, sample_int(0, 1), false), index[2];
    sample part = sample_make(t, lead + rest, part_sizes, sample_int(0, 1), false), e = twin(mode ? &whole : &part);
    const view *indices[2];
    for (int k = 0; k < count; k++) {
        index[k] = random_index(lead, part_sizes, whole_sizes[k], true);
        indices[k] = &index[k].v;
    }
    for (int64_t i = 0, n = view_numel(&part.v), inner = 1; i < n; i++) {
        inner = 1;
        for (int d = 0; d < rest; d++)
            inner *= part_sizes[lead + d];
        coordinates(&part.v, i, at);
        for (int k = 0; k < count; k++)
            place[k] = wrap(view_int(indices[k], i / inner), whole_sizes[k]);
        for (int d = 0; d < rest; d++)
            place[count + d] = at[lead + d];
        if (mode == 0)
            memcpy(view_at(&e.v, i), at_coordinates(&whole.v, place), dtype_size(t));
        else
            join_naive(t, mode == 1 ? SCATTER_SET : SCATTER_ADD, at_coordinates(&e.v, place), view_at(&part.v, i));
    }
    if (mode == 0)
        index_get(&part.v, &whole.v, indices, count);
    else
        index_put(&whole.v, &part.v, indices, count, mode == 2);
    bool right = same_bytes(mode ? &whole : &part, &e);
    for (int k = 0; k < count; k++)
        sample_free(&index[k]);
    sample_free(&whole);
    sample_free(&part);
    sample_free(&e);
    return right;
}

/* --- masks ------------------------------------------------------------------------------------------------- */

static bool masks_right(bk_dtype t, bool large)
{
    int64_t sizes[BK_MAX_NDIM] = { 5, 20000 }, count = 0;
    int ndim = large ? 2 : sample_sizes(sizes);
    sample s = sample_make(t, ndim, sizes, sample_int(0, 1), true);
    sample mask = sample_make(sample_int(0, 1) ? BK_BOOL : BK_UINT8, ndim, sizes, sample_int(0, 1), false);
    int64_t n = view_numel(&s.v), every = sample_int(1, 3);
    for (int64_t i = 0; i < n; i++) {
        dtype_store_int(mask.v.dtype, view_at(&mask.v, i), sample_int(0, every) == 0 ? sample_int(1, 200) : 0);
        count += view_int(&mask.v, i) != 0;
    }
    bool right = mask_count(&mask.v) == count;
    sample line = sample_make(t, 1, &count, sample_int(0, 1), false);
    right &= mask_select(&line.v, &s.v, &mask.v) == 0;
    for (int64_t i = 0, k = 0; i < n; i++)
        if (view_int(&mask.v, i))
            right &= memcmp(view_at(&line.v, k++), view_at(&s.v, i), dtype_size(t)) == 0;

    sample other = sample_make(t, 1, &count, sample_int(0, 1), false), e = twin(&s);
    for (int64_t i = 0, k = 0; i < n; i++)
        if (view_int(&mask.v, i))
            memcpy(view_at(&e.v, i), view_at(&other.v, k++), dtype_size(t));
    right &= mask_scatter(&s.v, &mask.v, &other.v) == 0 && same_bytes(&s, &e);

    char element[8];
    sample_element(t, element, false);
    for (int64_t i = 0; i < n; i++)
        if (view_int(&mask.v, i))
            memcpy(view_at(&e.v, i), element, dtype_size(t));
    mask_fill(&s.v, &mask.v, element);
    right &= same_bytes(&s, &e);
    sample_free(&s);
    sample_free(&mask);
    sample_free(&line);
    sample_free(&other);
    sample_free(&e);
    return right;
}

static bool nonzero_right(bk_dtype t)
{
    int64_t sizes[BK_MAX_NDIM], at[BK_MAX_NDIM];
    int ndim = sample_sizes(sizes);
    sample s = sample_make(t, ndim, sizes, sample_int(0, 1), true);
    int64_t n = view_numel(&s.v), k = 0, table[2] = { nonzero_count(&s.v), ndim };
    for (int64_t i = 0; i < n; i++)
        if (sample_int(0, 1))
            memset(view_at(&s.v, i), 0, dtype_size(t));
    table[0] = nonzero_count(&s.v);
    sample d = sample_make(BK_INT64, 2, table, sample_int(0, 1), false);
    bool right = nonzero(&d.v, &s.v) == 0;
    for (int64_t i = 0; i < n; i++) {
        if (view_double(&s.v, i) == 0)
            continue;
        coordinates(&s.v, i, at);
        for (int c = 0; c < ndim; c++)
            right &= view_int(&d.v, k * ndim + c) == at[c];
        k++;
    }
    right &= k == table[0];
    sample_free(&s);
    sample_free(&d);
    return right;
}

static void test_check(void)
{
    bool right = true;
    for (int i = 0; i < 300; i++) {
        int64_t sizes[2] = { sample_int(0, 5), sample_int(0, 50) }, bad = 0, size = sample_int(1, 30);
        sample index = random_index(2, sizes, size, true);
        int64_t n = view_numel(&index.v);
        right &= index_check(&index.v, size, &bad);
        if (n) {
            int64_t wrong = sample_int(0, 1) ? size : -size - 1;
            *(int64_t *)view_at(&index.v, sample_int(0, n - 1)) = wrong;
            right &= !index_check(&index.v, size, &bad) && bad == wrong;
        }
        sample_free(&index);
    }
    tap_ok(right, "an index out of range is found and named");
}

int main(void)
{
    bool gathered = true, selected = true, added = true, got = true, put = true, summed = true, masked = true,
         found = true;
    bool scattered[SCATTER_MODES] = { true, true, true, true, true };
    for (int i = 0; i < 500; i++) {
        bk_dtype t = (bk_dtype)(i % BK_DTYPE_COUNT);
        gathered &= gathers(t);
        for (int mode = 0; mode < SCATTER_MODES; mode++)
            scattered[mode] &= scatters(t, (scatter_mode)mode);
        selected &= slices_right(t, false);
        added &= slices_right(t, true);
        got &= advanced_right(t, 0);
        put &= advanced_right(t, 1);
        summed &= advanced_right(t, 2);
        masked &= masks_right(t, i % 50 < 10 && i < 100);
        found &= nonzero_right(t);
    }
    tap_ok(gathered, "gather along any dimension reads what a plain loop reads");
    tap_ok(scattered[SCATTER_SET], "scatter lets the last of repeated indices stay");
    tap_ok(scattered[SCATTER_ADD], "scatter_add adds in order, whatever the dtype");
    tap_ok(scattered[SCATTER_MUL], "scatter with products agrees with a plain loop");
    tap_ok(scattered[SCATTER_AMAX] && scattered[SCATTER_AMIN], "scatter with extremes agrees with a plain loop");
    tap_ok(selected, "index_select copies whole slices");
    tap_ok(added, "index_add adds whole slices, repeated ones in order");
    tap_ok(got, "advanced indexing reads src[i, j, ...] for broadcast index tensors");
    tap_ok(put, "advanced indexing writes, the last of repeated indices stays");
    tap_ok(summed, "advanced indexing with accumulate adds repeated indices");
    tap_ok(masked, "masks count, select, scatter and fill in row-major order");
    tap_ok(found, "nonzero lists the coordinates of all nonzero elements in row-major order");
    test_check();
    return tap_done();
}
