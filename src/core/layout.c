/* layout.c: the table of layouts.
 *
 * Invariant: one entry per distinct (sizes, strides), never moved, with a number of its own for the life of the
 * process. An entry that is used keeps its `plain`, `rest` and `turned`. */
#include "core/layout.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum { SWEEP_FROM = 1 << 15 }; /* 6 MB of layouts: fewer are not worth looking at every node */

static struct {
    layout **slots; /* open addressing, a power of two */
    uint32_t capacity, count;
    uint32_t next_id;
    uint32_t sweeps;
    uint32_t crowd; /* the count from which on a sweep is due */
} table = { .crowd = SWEEP_FROM };

static uint64_t hash(int ndim, const int64_t *sizes, const int64_t *strides)
{
    uint64_t h = 0x9E3779B97F4A7C15ull * (uint64_t)(ndim + 1);
    for (int d = 0; d < ndim; d++) {
        h = (h ^ (uint64_t)sizes[d]) * 0xBF58476D1CE4E5B9ull;
        h = (h ^ (h >> 29) ^ (uint64_t)strides[d]) * 0x94D049BB133111EBull;
    }
    return h ^ (h >> 32);
}

/* The table's layouts in new slots, all empty. */
static void rehash(layout **slots, uint32_t capacity)
{
    for (uint32_t i = 0; i < table.capacity; i++) {
        layout *l = table.slots[i];
        if (!l)
            continue;
        uint32_t at = (uint32_t)hash(l->ndim, l->sizes, l->strides) & (capacity - 1);
        while (slots[at])
            at = (at + 1) & (capacity - 1);
        slots[at] = l;
    }
    mem_free(table.slots);
    table.slots = slots;
    table.capacity = capacity;
}

static bool grow(void)
{
    uint32_t capacity = table.capacity ? table.capacity * 2 : 1024;
    layout **slots = mem_alloc_zero(capacity * sizeof *slots);
    if (slots)
        rehash(slots, capacity);
    return slots != NULL;
}

static bool is_contiguous(const layout *l)
{
    int64_t expect = 1;
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (l->sizes[d] == 1)
            continue;
        if (l->strides[d] != expect)
            return false;
        expect *= l->sizes[d];
    }
    return true;
}

/* The dimensions that matter (size > 1), fastest first. */
static int by_stride(const layout *l, int order[static BK_MAX_NDIM])
{
    int n = 0;
    for (int d = 0; d < l->ndim; d++) {
        if (l->sizes[d] == 1)
            continue;
        int at = n++;
        for (; at > 0 && l->strides[order[at - 1]] > l->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

static bool falls(const layout *l)
{
    for (int d = 1; d < l->ndim; d++)
        if (l->strides[d] >= l->strides[d - 1])
            return false;
    return l->numel && l->ndim && l->strides[l->ndim - 1];
}

static void describe(layout *l)
{
    l->contiguous = is_contiguous(l);
    int order[BK_MAX_NDIM], n = by_stride(l, order);
    int64_t expect = 1, span = 1;
    bool small = n < l->ndim; /* has a size below 2 */
    l->dense = true;
    l->overlapping = false;
    for (int i = 0; i < n; i++) {
        int64_t size = l->sizes[order[i]], stride = l->strides[order[i]];
        if (stride != expect)
            l->dense = false;
        if (stride < span)
            l->overlapping = true;
        expect *= size;
        span += (size - 1) * stride;
    }
    l->span = l->numel ? span : 0;
    if (!l->numel) {
        l->dense = l->contiguous = small = true;
        l->overlapping = false;
    }
    l->settled = l->numel && (l == l->plain || (l->dense && !small));
    l->falling = falls(l);
    l->decides = l->falling || (l->dense && !small);
}

static bool is(const layout *l, int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (l->ndim != ndim)
        return false;
    for (int d = 0; d < ndim; d++) /* few: a call of memcmp would cost more */
        if (l->sizes[d] != sizes[d] || l->strides[d] != strides[d])
            return false;
    return true;
}

/* The slot of the layout, empty if it is not there. The table has room. */
static uint32_t find(int ndim, const int64_t *sizes, const int64_t *strides)
{
    uint32_t at = (uint32_t)hash(ndim, sizes, strides) & (table.capacity - 1);
    while (table.slots[at] && !is(table.slots[at], ndim, sizes, strides))
        at = (at + 1) & (table.capacity - 1);
    return at;
}

static const layout *insert(int ndim, const int64_t *sizes, const int64_t *strides, int64_t numel, const layout *plain)
{
    if (table.count * 2 >= table.capacity && !grow())
        return NULL;
    uint32_t at = find(ndim, sizes, strides);
    if (table.slots[at]) {
        table.slots[at]->asked = table.sweeps;
        return table.slots[at];
    }
    layout *l = mem_alloc_zero(sizeof *l);
    if (!l)
        return NULL;
    l->id = table.next_id++;
    l->asked = table.sweeps;
    table.count++;
    l->ndim = (uint8_t)ndim;
    l->numel = numel;
    memcpy(l->sizes, sizes, (size_t)ndim * sizeof *sizes);
    memcpy(l->strides, strides, (size_t)ndim * sizeof *strides);
    l->plain = plain ? plain : l;
    describe(l);
    table.slots[at] = l;
    return l;
}

static const layout *without_dims(void)
{
    static const layout *l;
    static const int64_t none[1]; /* nothing is read, but memcpy wants an address */
    if (!l)
        l = layout_hold(insert(0, none, none, 1, NULL));
    return l;
}

/* Row-major layouts that were asked for lately: every reduction and product asks for one. Emptied by a sweep. */
enum { RECENT = 128 };
static layout *recent[RECENT];

static layout **recent_slot(int ndim, const int64_t *sizes)
{
    uint64_t h = (uint64_t)ndim;
    for (int d = 0; d < ndim; d++)
        h = h * 37 + (uint64_t)sizes[d];
    return &recent[(h ^ h >> 7) % RECENT];
}

static bool has_sizes(const layout *l, int ndim, const int64_t *sizes)
{
    bool same = l && l->ndim == ndim;
    for (int d = 0; same && d < ndim; d++)
        same = l->sizes[d] == sizes[d];
    return same;
}

static const layout *layout_find(int ndim, const int64_t *sizes, const int64_t *strides);

/* Strides that are known are sizes that were checked. */
const layout *layout_get(int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (!ndim)
        return without_dims();
    if (strides || ndim > BK_MAX_NDIM)
        return layout_find(ndim, sizes, strides);
    layout **slot = recent_slot(ndim, sizes);
    if (!has_sizes(*slot, ndim, sizes)) {
        const layout *plain = layout_find(ndim, sizes, NULL);
        if (!plain)
            return NULL;
        *slot = (layout *)(uintptr_t)plain;
    }
    (*slot)->asked = table.sweeps;
    return *slot;
}

static const layout *layout_find(int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (strides && ndim <= BK_MAX_NDIM && table.capacity) {
        layout *known = table.slots[find(ndim, sizes, strides)];
        if (known) {
            known->asked = table.sweeps;
            return known;
        }
    }
    if (ndim > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM, ndim);
    int64_t plain_strides[BK_MAX_NDIM], numel = 1, step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        plain_strides[d] = step;
        if (__builtin_mul_overflow(numel, sizes[d], &numel) || numel > INT64_MAX / 16 ||
            __builtin_mul_overflow(step, sizes[d] > 1 ? sizes[d] : 1, &step))
            return error_null(BK_RUNTIME_ERROR, "numel: integer multiplication overflow");
    }
    const layout *plain = insert(ndim, sizes, plain_strides, numel, NULL);
    if (!plain || !strides)
        return plain;
    return insert(ndim, sizes, strides, numel, plain);
}

const layout *layout_turned_new(const layout *l)
{
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    int last = l->ndim - 1;
    memcpy(sizes, l->sizes, sizeof sizes);
    memcpy(strides, l->strides, sizeof strides);
    sizes[last] = l->sizes[last - 1], sizes[last - 1] = l->sizes[last];
    strides[last] = l->strides[last - 1], strides[last - 1] = l->strides[last];
    const layout *turned = layout_get(l->ndim, sizes, strides);
    ((layout *)(uintptr_t)l)->turned = turned;
    return turned;
}

const layout *layout_rest_new(const layout *l)
{
    const layout *rest = layout_get(l->ndim - 1, l->sizes + 1, l->strides + 1);
    ((layout *)(uintptr_t)l)->rest = rest;
    return rest;
}

/* --- sweeping ------------------------------------------------------------------------------------------------- */

uint32_t layouts_live(void) { return table.count; }
bool layouts_crowded(void) { return table.count >= table.crowd; }

/* All layouts by address, with whether they are kept: a word is looked up before it is taken for a pointer. */
static struct {
    layout **at; /* open addressing; the last bit says that it is kept */
    uint64_t mask;
    uint32_t kept;
} found;

static layout **find_word(const void *word)
{
    uint64_t i = ((uintptr_t)word >> 4) * 0x9E3779B97F4A7C15ull >> 20 & found.mask;
    while (found.at[i] && (uintptr_t)found.at[i] >> 1 != (uintptr_t)word >> 1)
        i = (i + 1) & found.mask;
    return &found.at[i];
}

void layout_keep(const void *word)
{
    for (;;) {
        layout **at = find_word(word);
        if (!*at || (uintptr_t)*at & 1) /* no layout, or kept already */
            return;
        layout *l = *at;
        *at = (layout *)((uintptr_t)l | 1);
        found.kept++;
        layout_keep(l->plain);
        if (l->turned)
            layout_keep(l->turned);
        if (!l->rest)
            return;
        word = l->rest;
    }
}

static void keep_asked(void)
{
    for (uint32_t i = 0; i < table.capacity; i++) {
        const layout *l = table.slots[i];
        if (l && (l->holders || l->asked == table.sweeps))
            layout_keep(l);
    }
}

static void free_others(void)
{
    memset(recent, 0, sizeof recent);
    for (uint32_t i = 0; i < table.capacity; i++) {
        layout *l = table.slots[i];
        if (!l || (uintptr_t)*find_word(l) & 1)
            continue;
        table.slots[i] = NULL;
        table.count--;
        mem_free(l);
    }
}

void layout_sweep(void (*roots)(void))
{
    found.kept = 0;
    found.mask = (uint64_t)table.capacity * 2 - 1;
    found.at = mem_alloc_zero((found.mask + 1) * sizeof *found.at);
    layout **slots = found.at ? mem_alloc_zero(table.capacity * sizeof *slots) : NULL;
    table.crowd = table.count + SWEEP_FROM; /* without memory to sweep in: later */
    if (slots) {
        for (uint32_t i = 0; i < table.capacity; i++)
            if (table.slots[i])
                *find_word(table.slots[i]) = table.slots[i];
        roots();
        const uint32_t used = found.kept;
        keep_asked();
        free_others();
        rehash(slots, table.capacity);
        table.crowd = table.count + used + SWEEP_FROM; /* looking at all costs as much as was made since */
        table.sweeps++;
    } else {
        bk_error_clear();
    }
    mem_free(found.at);
}

int layout_dim(const layout *l, int64_t d)
{
    int64_t n = l->ndim ? l->ndim : 1;
    if (d < -n || d >= n)
        return error_int(BK_INDEX_ERROR,
                         "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                         (long long)-n, (long long)n - 1, (long long)d);
    return (int)(d < 0 ? d + n : d);
}

/* The largest stride that all addresses of one "row" stay below: the row's extent, or 0 when there is no such
 * dimension. A (B, T, H) buffer's x[:, t] has rows of H elements, T*H apart. */
static int64_t row_of(const layout *l, int64_t *extent)
{
    int order[BK_MAX_NDIM], n = by_stride(l, order);
    int64_t span = 1;
    for (int i = 0; i < n; i++) {
        int64_t stride = l->strides[order[i]];
        if (stride > span && i > 0) {
            *extent = span;
            return stride;
        }
        span += (l->sizes[order[i]] - 1) * stride;
    }
    if (n == 1 && l->strides[order[0]] > 1) {
        *extent = 1;
        return l->strides[order[0]];
    }
    return 0;
}

bool layout_meets(const layout *a, int64_t a_low, int64_t a_high, const layout *b, int64_t b_at)
{
    if (!a->numel || !b->numel)
        return false;
    if (a_high + a->span <= b_at || b_at + b->span <= a_low)
        return false;
    int64_t a_extent, b_extent, stride = row_of(a, &a_extent);
    if (!stride || row_of(b, &b_extent) != stride)
        return true;
    /* Rows of the same pitch, each within its own pitch: they meet when their places in the pitch do. Strides above
     * the pitch are multiples of it in every layout that slicing makes; where one is not, nothing is known. */
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] > 1 && a->strides[d] >= stride && a->strides[d] % stride)
            return true;
    for (int d = 0; d < b->ndim; d++)
        if (b->sizes[d] > 1 && b->strides[d] >= stride && b->strides[d] % stride)
            return true;
    if (a_low / stride != a_high / stride)
        return true;
    int64_t low = a_low % stride, high = a_high % stride + a_extent, at = b_at % stride;
    if (high > stride || at + b_extent > stride)
        return true;
    return low < at + b_extent && at < high;
}

const char *sizes_text(int ndim, const int64_t *sizes, char text[static 200])
{
    enum { ROOM = 200, ENOUGH = ROOM - 32 };
    int at = snprintf(text, ROOM, "[");
    for (int d = 0; d < ndim && at < ENOUGH; d++)
        at += snprintf(text + at, (size_t)(ROOM - at), d ? ", %lld" : "%lld", (long long)sizes[d]);
    snprintf(text + at, (size_t)(ROOM - at), at < ENOUGH ? "]" : ", ...]");
    return text;
}

const char *layout_text(const layout *l, char text[static 200]) { return sizes_text(l->ndim, l->sizes, text); }

/* Whether dimension a comes after b, counted from the fastest; an expanded dimension stays where it is. */
static int compare_strides(const layout *l, int a, int b)
{
    if (l->strides[a] == 0 || l->strides[b] == 0)
        return 0;
    if (l->strides[a] != l->strides[b])
        return l->strides[a] < l->strides[b] ? -1 : 1;
    return l->sizes[a] > l->sizes[b];
}

bool layout_view_strides(const layout *l, int ndim, const int64_t *sizes, int64_t strides[static BK_MAX_NDIM])
{
    if (l->numel == 0) {
        int64_t step = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            strides[d] = step;
            step *= sizes[d] > 1 ? sizes[d] : 1;
        }
        if (ndim == l->ndim && !memcmp(sizes, l->sizes, (size_t)ndim * sizeof *sizes))
            memcpy(strides, l->strides, (size_t)ndim * sizeof *strides);
        return true;
    }
    int at = ndim - 1;
    int64_t base = l->ndim ? l->strides[l->ndim - 1] : 1, chunk = 1, viewed = 1;
    for (int d = l->ndim - 1; d >= 0; d--) {
        chunk *= l->sizes[d];
        bool ends = d == 0 || (l->sizes[d - 1] != 1 && l->strides[d - 1] != chunk * base);
        if (!ends)
            continue;
        while (at >= 0 && (viewed < chunk || sizes[at] == 1)) {
            strides[at] = viewed * base;
            viewed *= sizes[at--];
        }
        if (viewed != chunk)
            return false;
        if (d > 0) {
            base = l->strides[d - 1];
            chunk = viewed = 1;
        }
    }
    for (; at >= 0; at--)
        strides[at] = 1;
    return true;
}

const layout *layout_packed(const layout *l)
{
    if (l->dense)
        return l;
    int order[BK_MAX_NDIM]; /* the fastest dimension first */
    for (int i = 0; i < l->ndim; i++) {
        order[i] = l->ndim - 1 - i;
        for (int at = i, j = i - 1; j >= 0; j--) {
            int before = compare_strides(l, order[j], order[at]);
            if (before < 0)
                break;
            if (before == 0)
                continue;
            int moved = order[at];
            order[at] = order[j];
            order[j] = moved;
            at = j;
        }
    }
    int64_t strides[BK_MAX_NDIM], step = 1;
    for (int i = 0; i < l->ndim; i++) {
        strides[order[i]] = step;
        step *= l->sizes[order[i]] > 1 ? l->sizes[order[i]] : 1;
    }
    return layout_get(l->ndim, l->sizes, strides);
}

/* --- channels last ---------------------------------------------------------------------------------------------- */

/* The i-th dimension from the fastest: channels, the inner ones, the batch. */
static int channels_order(int ndim, int i) { return i == 0 ? 1 : i == ndim - 1 ? 0 : ndim - i; }

bool layout_is_channels_last(const layout *l)
{
    int64_t expect = 1;
    for (int i = 0; l->ndim == 4 && i < 4; i++) {
        int d = channels_order(4, i);
        if (l->sizes[d] == 1)
            continue;
        if (l->strides[d] != expect)
            return false;
        expect *= l->sizes[d];
    }
    return l->ndim == 4;
}

/* A batch that is no further apart than channels is taken for row-major, as PyTorch takes it. */
bool layout_looks_channels_last(const layout *l)
{
    if ((l->ndim != 4 && l->ndim != 5) || l->strides[1] == 0)
        return false;
    int64_t least = 0;
    for (int i = 0; i < l->ndim; i++) {
        int d = channels_order(l->ndim, i);
        if (l->sizes[d] == 0 || l->strides[d] < least || (d == 0 && least == l->strides[1]))
            return false;
        least = l->strides[d] * l->sizes[d];
    }
    return true;
}

const layout *layout_channels_last(const layout *plain)
{
    int64_t strides[BK_MAX_NDIM], step = 1;
    for (int i = 0; i < plain->ndim; i++) {
        int d = channels_order(plain->ndim, i);
        strides[d] = step;
        step *= plain->sizes[d];
    }
    return layout_get(plain->ndim, plain->sizes, strides);
}
