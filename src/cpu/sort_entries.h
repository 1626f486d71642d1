/* sort_entries.h: radix sort and selection of entries; sort.c includes it once per kind of entry.
 *
 * Parameters: ENTRY the type; N(name); DIGIT(e, d) the d-th byte of its key from below; DIGITS how many bytes the key
 * has; LESS, a function, is a total order by key, then index: so equal keys keep their order under any algorithm. */

enum { N(insertion_limit) = 24 };

static void N(insertion_sort)(ENTRY *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        ENTRY x = e[i];
        int64_t j = i;
        for (; j > 0 && LESS(x, e[j - 1]); j--)
            e[j] = e[j - 1];
        e[j] = x;
    }
}

/* Merges the sorted halves of e, the first of length m. */
static void N(merge)(ENTRY *e, int64_t m, int64_t n, ENTRY *spare)
{
    memcpy(spare, e, (size_t)m * sizeof *e);
    int64_t i = 0, j = m, k = 0;
    while (i < m && j < n) {
        bool second = LESS(e[j], spare[i]);
        e[k++] = second ? e[j] : spare[i];
        j += second;
        i += !second;
    }
    memcpy(e + k, spare + i, (size_t)(m - i) * sizeof *e);
}

/* For lengths at which counting digits costs more than comparing. */
static void N(merge_sort)(ENTRY *e, int64_t n, ENTRY *spare)
{
    for (int64_t i = 0; i < n; i += N(insertion_limit))
        N(insertion_sort)(e + i, n - i < N(insertion_limit) ? n - i : N(insertion_limit));
    for (int64_t width = N(insertion_limit); width < n; width *= 2)
        for (int64_t i = 0; i + width < n; i += 2 * width)
            N(merge)(e + i, width, n - i < 2 * width ? n - i : 2 * width, spare);
}

/* From the lowest byte up; a byte that all keys share is skipped. Returns where the result is: e or spare. */
static ENTRY *N(radix_sort)(ENTRY *e, int64_t n, ENTRY *spare)
{
    uint32_t count[DIGITS][256];
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++)
            count[d][DIGIT(e[i], d)]++;
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][DIGIT(e[0], d)] == n)
            continue;
        uint32_t at = 0;
        for (int b = 0; b < 256; b++) {
            uint32_t c = count[d][b];
            count[d][b] = at;
            at += c;
        }
        for (int64_t i = 0; i < n; i++)
            spare[count[d][DIGIT(e[i], d)]++] = e[i];
        ENTRY *swap = e;
        e = spare;
        spare = swap;
    }
    return e;
}

static ENTRY *N(sort)(ENTRY *e, int64_t n, ENTRY *spare)
{
    if (n > 64 * DIGITS)
        return N(radix_sort)(e, n, spare);
    N(merge_sort)(e, n, spare);
    return e;
}

static ENTRY N(median_of_three)(ENTRY a, ENTRY b, ENTRY c)
{
    if (LESS(b, a)) {
        ENTRY t = a;
        a = b;
        b = t;
    }
    return LESS(c, a) ? a : LESS(c, b) ? c : b;
}

/* Partitions so that e[k] is where sorting would put it, with nothing greater before it. Entries are all different, so
 * that both sides shrink. */
static void N(select)(ENTRY *e, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (high - low >= N(insertion_limit)) {
        ENTRY pivot = N(median_of_three)(e[low], e[low + (high - low) / 2], e[high]);
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            while (LESS(e[++i], pivot))
                ;
            while (LESS(pivot, e[--j]))
                ;
            if (i >= j)
                break;
            ENTRY t = e[i];
            e[i] = e[j];
            e[j] = t;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    N(insertion_sort)(e + low, high - low + 1);
}

#undef N
#undef ENTRY
#undef DIGIT
#undef DIGITS
#undef LESS
