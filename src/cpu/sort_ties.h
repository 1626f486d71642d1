/* sort_ties.h: sorting and selecting entries by their keys alone; sort.c includes it once per kind of entry.
 *
 * Where keys are equal, the order of the result is that of the steps taken. PyTorch sorts, selects and takes the top k
 * by the algorithms of the C++ library that it is built with, libstdc++ (introsort, introselect, heaps), and finds the
 * k-th value by Sedgewick's quickselect: these are the same algorithms, comparison by comparison, so that equal values
 * come in PyTorch's order. Any change of a step changes it; test_sort_order.py compares.
 *
 * Parameters: ENTRY the type, N(name), KEY(e). Keys above `top` are of NaNs that are not less than anything, nor is
 * anything less than them; UINT64_MAX where there are none. */

enum { N(few) = 16 };

static inline bool N(before)(ENTRY a, ENTRY b, uint64_t top) { return KEY(a) < KEY(b) && KEY(b) <= top; }

static inline void N(swap)(ENTRY *a, ENTRY *b)
{
    ENTRY t = *a;
    *a = *b;
    *b = t;
}

/* --- heaps: the greatest first ------------------------------------------------------------------------------------ */

static void N(heap_rise)(ENTRY *e, int64_t hole, int64_t stop, ENTRY x, uint64_t top)
{
    int64_t parent = (hole - 1) / 2;
    while (hole > stop && N(before)(e[parent], x, top)) {
        e[hole] = e[parent];
        hole = parent;
        parent = (hole - 1) / 2;
    }
    e[hole] = x;
}

/* x takes its place at or below the hole: first the hole sinks all the way, then x rises from there. */
static void N(heap_put)(ENTRY *e, int64_t hole, int64_t n, ENTRY x, uint64_t top)
{
    int64_t start = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (N(before)(e[child], e[child - 1], top))
            child--;
        e[hole] = e[child];
        hole = child;
    }
    if ((n & 1) == 0 && child == (n - 2) / 2) {
        child = 2 * (child + 1);
        e[hole] = e[child - 1];
        hole = child - 1;
    }
    N(heap_rise)(e, hole, start, x, top);
}

/* The first goes to *to, whose entry joins the heap of n. */
static void N(heap_exchange)(ENTRY *e, int64_t n, ENTRY *to, uint64_t top)
{
    ENTRY x = *to;
    *to = e[0];
    N(heap_put)(e, 0, n, x, top);
}

/* The k least of n, as a heap. */
static void N(heap_select)(ENTRY *e, int64_t k, int64_t n, uint64_t top)
{
    for (int64_t parent = (k - 2) / 2; k > 1 && parent >= 0; parent--)
        N(heap_put)(e, parent, k, e[parent], top);
    for (int64_t i = k; i < n; i++)
        if (N(before)(e[i], e[0], top))
            N(heap_exchange)(e, k, &e[i], top);
}

/* The k least of n, sorted. */
static void N(sort_least)(ENTRY *e, int64_t k, int64_t n, uint64_t top)
{
    N(heap_select)(e, k, n, top);
    for (int64_t last = k - 1; last > 0; last--)
        N(heap_exchange)(e, last, &e[last], top);
}

/* --- introsort and introselect ------------------------------------------------------------------------------------ */

/* The median of the second, the middle and the last becomes the first; returns where the entries not before it begin.
 */
static int64_t N(split)(ENTRY *e, int64_t low, int64_t high, uint64_t top)
{
    int64_t a = low + 1, b = low + (high - low) / 2, c = high - 1;
    int64_t median = N(before)(e[a], e[b], top)   ? N(before)(e[b], e[c], top)   ? b
                                                    : N(before)(e[a], e[c], top) ? c
                                                                                 : a
                     : N(before)(e[a], e[c], top) ? a
                     : N(before)(e[b], e[c], top) ? c
                                                  : b;
    N(swap)(&e[low], &e[median]);
    int64_t i = low + 1, j = high;
    for (;; i++) {
        while (N(before)(e[i], e[low], top))
            i++;
        j--;
        while (N(before)(e[low], e[j], top))
            j--;
        if (i >= j)
            return i;
        N(swap)(&e[i], &e[j]);
    }
}

static void N(insert_before)(ENTRY *e, int64_t i, uint64_t top)
{
    ENTRY x = e[i];
    while (N(before)(x, e[i - 1], top)) {
        e[i] = e[i - 1];
        i--;
    }
    e[i] = x;
}

/* One that is before the first goes there at once, so that the others find an end. */
static void N(insert_all)(ENTRY *e, int64_t n, uint64_t top)
{
    for (int64_t i = 1; i < n; i++) {
        if (!N(before)(e[i], e[0], top)) {
            N(insert_before)(e, i, top);
            continue;
        }
        ENTRY x = e[i];
        memmove(e + 1, e, (size_t)i * sizeof *e);
        e[0] = x;
    }
}

static int N(depth_limit)(int64_t n) { return 2 * (63 - __builtin_clzll((uint64_t)n)); }

/* Until no stretch is longer than a few; too many uneven splits, and a heap does it. Each call goes one deeper. */
static void N(introsort)(ENTRY *e, int64_t low, int64_t high, int depth, uint64_t top)
{
    while (high - low > N(few)) {
        if (depth-- == 0) {
            N(sort_least)(e + low, high - low, high - low, top);
            return;
        }
        int64_t cut = N(split)(e, low, high, top);
        N(introsort)(e, cut, high, depth, top);
        high = cut;
    }
}

static void N(sort_ties)(ENTRY *e, int64_t n, uint64_t top)
{
    if (n > 1)
        N(introsort)(e, 0, n, N(depth_limit)(n), top);
    N(insert_all)(e, n < N(few) ? n : N(few), top);
    for (int64_t i = N(few); i < n; i++)
        N(insert_before)(e, i, top);
}

/* e[k] is where sorting would put it, nothing greater before it. */
static void N(select_ties)(ENTRY *e, int64_t n, int64_t k)
{
    int64_t low = 0, high = n;
    for (int depth = N(depth_limit)(n); high - low > 3; depth--) {
        if (depth == 0) {
            N(heap_select)(e + low, k + 1 - low, high - low, UINT64_MAX);
            N(swap)(&e[low], &e[k]);
            return;
        }
        int64_t cut = N(split)(e, low, high, UINT64_MAX);
        if (cut <= k)
            low = cut;
        else
            high = cut;
    }
    N(insert_all)(e + low, high - low, UINT64_MAX);
}

/* The same by quickselect, whose pivot is the median of the first, the middle and the last. */
static void N(quickselect)(ENTRY *e, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (high > low + 1) {
        int64_t i = low + 1, j = high;
        N(swap)(&e[(low + high) / 2], &e[low + 1]);
        if (KEY(e[low + 1]) > KEY(e[high]))
            N(swap)(&e[low + 1], &e[high]);
        if (KEY(e[low]) > KEY(e[high]))
            N(swap)(&e[low], &e[high]);
        if (KEY(e[low + 1]) > KEY(e[low]))
            N(swap)(&e[low + 1], &e[low]);
        ENTRY pivot = e[low];
        for (;;) {
            while (KEY(pivot) > KEY(e[++i]))
                ;
            while (KEY(e[--j]) > KEY(pivot))
                ;
            if (j < i)
                break;
            N(swap)(&e[i], &e[j]);
        }
        N(swap)(&e[low], &e[j]);
        if (j <= k)
            low = i;
        if (j >= k)
            high = j - 1;
    }
    if (high == low + 1 && KEY(e[low]) > KEY(e[high]))
        N(swap)(&e[low], &e[high]);
}

#undef N
#undef ENTRY
#undef KEY
