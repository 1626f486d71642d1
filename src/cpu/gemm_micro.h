/* gemm_micro.h: the micro-kernels for one element type; gemm_kernels.c includes it once per type.
 *
 * Before: ELEM (element type), NAME(x) (x with a suffix for the type), STAGES(v) (transposes the LANES vectors of v),
 * FLOPS_PER_NS, ADD_PRODUCT and ADD_SCALED (sum += left * right, of vectors, of an element and a vector),
 * LEAN_TILES (whether there are any). The shape of the tiles comes from gemm_kernels.c. Everything here is undefined
 * again at the end. */

typedef ELEM NAME(vec) __attribute__((vector_size(VECTOR_BYTES)));
typedef ELEM NAME(vec_loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEM)), may_alias));
#define VEC   NAME(vec)
#define LOOSE NAME(vec_loose)
#define LANES ((int)(VECTOR_BYTES / sizeof(ELEM)))

/* Stores the sums of a tile, increased by what they are added to: one after the other, which makes short code. */
ALWAYS_INLINE void NAME(increase)(const int rows, const int wide, VEC sum[][8], const ELEM *by, int64_t row)
{
    if (!by)
        return;
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < wide; j++) sum[i][j] += (VEC) * (const LOOSE *)(by + i * row + j * LANES);
    }
}

ALWAYS_INLINE void NAME(finish)(const int rows, const int wide, const gemm_steps *s, VEC sum[][8], const ELEM *from,
                                ELEM *c)
{
    NAME(increase)(rows, wide, sum, from, s->from_row);
    NAME(increase)(rows, wide, sum, s->addend, s->addend_row);
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < wide; j++) * (LOOSE *)(c + i * s->c_row + j * LANES) = (LOOSE)sum[i][j];
    }
}

/* A tile of `rows` x `wide` vectors, two of them from each panel, all of them in registers: the two counts are
 * constants wherever this is inlined, and every loop over them is unrolled. */
ALWAYS_INLINE void NAME(tile)(const int rows, const int wide, const gemm_steps *s, const ELEM *a, const ELEM *b,
                              const ELEM *from, ELEM *c)
{
    const int64_t a_col = s->a_col, b_row = s->b_row, b_panel = s->b_panel;
    /* Columns of a that are apart come from L2: asked for when read, they hold up the loads after them. */
    const int64_t ahead = 8 * a_col;
    /* Rows of a: three pointers and multiples of the stride that an address can hold. Left alone, gcc keeps one
     * offset per row, runs out of integer registers, and moves them through the vector unit. */
    const int64_t row = s->a_row;
    int64_t row3 = 3 * s->a_row;
    const ELEM *rows0 = a, *rows5 = a + 5 * s->a_row, *rows10 = a + 10 * s->a_row;
    HIDE(row3);
    HIDE(rows5);
    HIDE(rows10);
    VEC sum[GEMM_MAX_ROWS][8];
    UNROLL for (int i = 0; i < rows; i++) { UNROLL for (int j = 0; j < wide; j++) sum[i][j] = (VEC){ 0 }; }
    const char *next = s->next;
    int64_t run = s->next_run;
    for (int64_t k = s->k; k > 0; k--) {
        VEC right[8];
        if (rows > 4) {
            __builtin_prefetch(next, 0, 2);
            if (a_col != 1) {
                __builtin_prefetch(rows0 + ahead, 0, 3);
                if (rows > 10)
                    __builtin_prefetch(rows10 + ahead + row3, 0, 3);
            }
            next += s->next_step;
            if (--run == 0) {
                next += s->next_jump;
                run = s->next_run;
            }
        }
        UNROLL for (int j = 0; j < wide; j++)
        {
            right[j] = *(const LOOSE *)(b + j / 2 * b_panel + j % 2 * LANES);
            if (rows > 1)
                PIN(right[j]); /* else gcc loads it again in each multiply-add: 4x24 fell from 99% to 73% of peak */
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            const ELEM *group = i < 5 ? rows0 : i < 10 ? rows5 : rows10;
            const VEC left = group[i % 5 == 3 ? row3 : i % 5 * row] - (VEC){ 0 };
            UNROLL for (int j = 0; j < wide; j++) sum[i][j] += left * right[j];
        }
        rows0 += a_col;
        rows5 += a_col;
        rows10 += a_col;
        b += b_row;
    }
    NAME(finish)(rows, wide, s, sum, from, c);
}

#define TILE(rows, panels)                                                                                             \
    static void NAME(tile_##rows##_##panels)(const gemm_steps *s, const void *a, const void *b, const void *from,      \
                                             void *c)                                                                  \
    {                                                                                                                  \
        NAME(tile)(rows, 2 * panels, s, a, b, from, c);                                                                \
    }
#define WIDE_TILE(rows, panels) TILE(rows, panels)
#define PAIR_TILE(rows, panels) TILE(rows, panels)
TILES
WIDE_TILES
PAIR_TILES
#undef TILE
#undef WIDE_TILE
#undef PAIR_TILE

#if LEAN_TILES
/* --- lean tiles: one panel wide, contiguous rows or columns of a, or a packed ----------------------------------- */

/* A core whose front end serves another process as well gets little more than two instructions a cycle through it,
 * which is what the multiply-adds take. So every other row is broadcast by the multiply-adds that read it, not by an
 * instruction of its own; all of them would be more loads than a cycle has. An instruction that does both must not have
 * an index in its address, or it counts as two: in place, the first rows have a pointer each, and the others are found
 * at a distance from them. */
typedef struct NAME(lean_place) {
    const ELEM *rows[(GEMM_MAX_ROWS + 1) / 2]; /* of a, in place; packed or in columns, the first is all there is */
    int64_t others;                            /* from there to the rows without a pointer */
    const ELEM *b;
    const ELEM *raw; /* the row of the slice that is packed meanwhile, and where it goes */
    VEC *keep;
    const char *next;
    int64_t run;
} NAME(lean_place);

/* Packs a row, and asks for those to come. One vector at a time: there is no register for two. */
ALWAYS_INLINE void NAME(carry)(const gemm_steps *s, NAME(lean_place) * at)
{
    enum { AHEAD = 8 };
    UNROLL for (int v = 0; v < 2; v++)
    {
        VEC part = *(const LOOSE *)(at->raw + v * LANES);
        PIN(part);
        at->keep[v] = part;
    }
    const ELEM *later = at->raw + AHEAD * s->raw_row;
    UNROLL for (int v = 0; v < 2; v++) __builtin_prefetch(later + v * LANES, 0, 3);
    __builtin_prefetch(later + 2 * LANES - 1, 0, 3);
    UNROLL for (int v = 0; v < 2; v++) __builtin_prefetch(at->keep + 2 * AHEAD + v, 1, 3);
    at->raw += s->raw_row;
    at->keep += 2;
    HIDE(at->raw);
}

/* The t-th k from where the pointers to a are. */
ALWAYS_INLINE void NAME(lean_k)(const int rows, const gemm_a a, const int t, const NAME(lean_place) * at,
                                const VEC *right, VEC sum[][8])
{
    const int half = (rows + 1) / 2, from = a == GEMM_A_PACKED ? t * rows : 0;
    const bool beside = a != GEMM_A_ROWS;
    UNROLL for (int j = 0; j < half; j++)
    {
        const int alone = beside ? 2 * j : half + j, within = beside ? 2 * j + 1 : j;
        if (alone < rows) {
            VEC left = (beside ? at->rows[0][from + alone] : at->rows[j][at->others + t]) - (VEC){ 0 };
            PIN(left);
            UNROLL for (int v = 0; v < 2; v++) ADD_PRODUCT(sum[alone][v], left, right[v]);
        }
        if (within < rows) {
            const ELEM *left = beside ? at->rows[0] + from + within : at->rows[j] + t;
            UNROLL for (int v = 0; v < 2; v++) ADD_SCALED(sum[within][v], *left, right[v]);
        }
    }
}

/* Several k of the `left` that remain. `carries`: meanwhile a row of another slice of b is packed. Its loads and stores
 * find room between the multiply-adds, where a copy on its own waits for memory all the time. */
ALWAYS_INLINE void NAME(lean_steps)(const int rows, const gemm_a a, const bool carries, const int steps, int64_t left,
                                    const gemm_steps *s, NAME(lean_place) * at, VEC sum[][8])
{
    enum { AHEAD = 8 };
    const int pointers = a == GEMM_A_ROWS ? (rows + 1) / 2 : 1;
    UNROLL for (int t = 0; t < steps; t++)
    {
        VEC right[2];
        if (t % GEMM_LEAN_FETCH == 0) {
            __builtin_prefetch(at->next, 0, 2);
            at->next += s->next_step;
            if (--at->run == 0) {
                at->next += s->next_jump;
                at->run = s->next_run;
            }
        }
        if (carries && t == 0 && !(left & s->raw_rests))
            NAME(carry)(s, at);
        UNROLL for (int v = 0; v < 2; v++)
        {
            right[v] = *(const LOOSE *)(at->b + v * LANES);
            PIN(right[v]);
        }
        at->b += s->b_row;
        HIDE(at->b); /* one register, not one for each of the steps */
        HIDE(at->others);
        NAME(lean_k)(rows, a, t, at, right, sum);
        if (a == GEMM_A_COLUMNS) { /* they come from L2: asked for when read, they hold up the loads after them */
            __builtin_prefetch(at->rows[0] + AHEAD * s->a_col, 0, 3);
            if (rows * sizeof(ELEM) > 32)
                __builtin_prefetch(at->rows[0] + AHEAD * s->a_col + rows - 1, 0, 3);
            at->rows[0] += s->a_col;
            HIDE(at->rows[0]);
        }
    }
    if (a != GEMM_A_COLUMNS)
        UNROLL for (int i = 0; i < pointers; i++) at->rows[i] += a == GEMM_A_PACKED ? steps * rows : steps;
}

/* Asks for the lines that a tile is going to be added to. A loop, lest its addresses take registers from the tile. */
ALWAYS_INLINE void NAME(ask_for)(const int rows, const ELEM *from, const gemm_steps *s)
{
    HIDE(from);
    for (int i = 0; i < rows; i++, from += s->from_row) {
        HIDE(from);
        UNROLL for (int at = 0; at < 2 * LANES; at += 64 / (int)sizeof(ELEM)) __builtin_prefetch(from + at, 0, 3);
    }
}

ALWAYS_INLINE void NAME(lean)(const int rows, const gemm_a kind, const bool carries, const gemm_steps *s, const ELEM *a,
                              const ELEM *b, const ELEM *from, ELEM *c)
{
    enum { STEPS = GEMM_CARRY_K, LAST = 64 };
    const int half = (rows + 1) / 2;
    NAME(lean_place)
    at = { .others = half * s->a_row, .b = b, .raw = s->raw, .keep = s->keep, .next = s->next, .run = s->next_run };
    UNROLL for (int i = 0; i < half; i++)
    {
        at.rows[i] = a + i * s->a_row;
        HIDE(at.rows[i]);
    }
    HIDE(at.others);
    VEC sum[GEMM_MAX_ROWS][8];
    UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (VEC){ 0 };
    int64_t k = s->k;
    for (; k >= STEPS; k -= STEPS) {
        if (__builtin_expect(k / STEPS == LAST / STEPS, 0) && from)
            NAME(ask_for)(rows, from, s);
        NAME(lean_steps)(rows, kind, carries, STEPS, k, s, &at, sum);
    }
    for (; k > 0; k--)
        NAME(lean_steps)(rows, kind, false, 1, k, s, &at, sum);
    NAME(finish)(rows, 2, s, sum, from, c);
}

/* The same over rows of a and b that come in runs, those of some rows of a batch at every step of a loop. Runs are
 * apart, and too short for the hardware to find the next by itself. */
ALWAYS_INLINE void NAME(strung)(const int rows, const gemm_steps *s, const ELEM *a, const ELEM *b, const ELEM *from,
                                ELEM *c)
{
    enum { ROWS_AHEAD = 24 };
    const int64_t ahead = (ROWS_AHEAD + s->k - 1) / s->k, a_ahead = ahead * s->a_run, b_ahead = ahead * s->b_run;
    NAME(lean_place) at = { .b = b };
    VEC sum[GEMM_MAX_ROWS][8];
    UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (VEC){ 0 };
    for (int64_t run = 0; run < s->runs; run++) {
        at.rows[0] = a + run * s->a_run;
        at.b = b + run * s->b_run;
        for (int64_t k = s->k; k > 0; k--) {
            VEC right[2];
            UNROLL for (int v = 0; v < 2; v++)
            {
                right[v] = *(const LOOSE *)(at.b + v * LANES);
                PIN(right[v]);
                __builtin_prefetch(at.b + b_ahead + v * LANES, 0, 3);
            }
            __builtin_prefetch(at.rows[0] + a_ahead, 0, 3);
            NAME(lean_k)(rows, GEMM_A_COLUMNS, 0, &at, right, sum);
            at.rows[0] += s->a_col;
            at.b += s->b_row;
            HIDE(at.rows[0]);
            HIDE(at.b);
        }
    }
    NAME(finish)(rows, 2, s, sum, from, c);
}

#define LEAN(name, rows, kind, carries)                                                                                \
    static void NAME(name##_##rows)(const gemm_steps *s, const void *a, const void *b, const void *from, void *c)      \
    {                                                                                                                  \
        NAME(lean)(rows, kind, carries, s, a, b, from, c);                                                             \
    }
#define TILE(rows, panels)                                                                                             \
    LEAN(in_place, rows, GEMM_A_ROWS, false)                                                                           \
    LEAN(in_place_carrying, rows, GEMM_A_ROWS, true)                                                                   \
    LEAN(columns, rows, GEMM_A_COLUMNS, false)                                                                         \
    LEAN(columns_carrying, rows, GEMM_A_COLUMNS, true)                                                                 \
    LEAN(packed, rows, GEMM_A_PACKED, false)                                                                           \
    LEAN(packed_carrying, rows, GEMM_A_PACKED, true)                                                                   \
    static void NAME(strung_##rows)(const gemm_steps *s, const void *a, const void *b, const void *from, void *c)      \
    {                                                                                                                  \
        NAME(strung)(rows, s, a, b, from, c);                                                                          \
    }
TILES
#undef TILE
#undef LEAN
#endif

#define TILE(rows, panels)                                                                                             \
    static void NAME(narrow_##rows)(const gemm_steps *s, const void *a, const void *b, const void *from, void *c)      \
    {                                                                                                                  \
        NAME(tile)(rows, 1, s, a, b, from, c);                                                                         \
    }
TILES
#undef TILE

/* `count` rows of a square of b, turned, times as many elements of each row of a. */
ALWAYS_INLINE void NAME(multiply_square)(const int rows, const int count, const gemm_steps *s, const ELEM *a,
                                         const VEC *square, VEC sum[][2], const int half)
{
    UNROLL for (int t = 0; t < count; t++)
    {
        UNROLL for (int i = 0; i < rows; i++)
        {
            const VEC left = a[i * s->a_row + t * s->a_col] - (VEC){ 0 };
            sum[i][half] += left * square[t];
        }
    }
}

/* The same tile of few rows where the columns of b are contiguous, b_panel apart: it is turned square by square on
 * its way into the multiply-adds. Too few rows read it to pay for storing it turned. */
ALWAYS_INLINE void NAME(turned)(const int rows, const gemm_steps *s, const ELEM *a, const ELEM *b, const ELEM *from,
                                ELEM *c)
{
    VEC sum[GEMM_MAX_TURNED_ROWS][2], square[LANES];
    UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (VEC){ 0 };
    int64_t k = 0;
    for (; k + LANES <= s->k; k += LANES) {
        UNROLL for (int half = 0; half < 2; half++)
        {
            const ELEM *columns = b + k + half * LANES * s->b_panel;
            UNROLL for (int j = 0; j < LANES; j++) square[j] = *(const LOOSE *)(columns + j * s->b_panel);
            STAGES(square)
            NAME(multiply_square)(rows, LANES, s, a + k * s->a_col, square, sum, half);
        }
    }
    for (int half = 0; half < 2 && k < s->k; half++) {
        for (int j = 0; j < LANES; j++) {
            square[j] = (VEC){ 0 };
            memcpy(&square[j], b + k + (half * LANES + j) * s->b_panel, (size_t)(s->k - k) * sizeof(ELEM));
        }
        STAGES(square)
        for (int64_t t = 0; t < s->k - k; t++)
            NAME(multiply_square)(rows, 1, s, a + (k + t) * s->a_col, square + t, sum, half);
    }
    const ELEM *start = from ? from : c, *addend = s->addend;
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int half = 0; half < 2; half++)
        {
            LOOSE *out = (LOOSE *)(c + i * s->c_row + half * LANES);
            const LOOSE *first = (const LOOSE *)(start + i * s->from_row + half * LANES);
            VEC all = from ? (VEC)*first + sum[i][half] : sum[i][half];
            if (addend)
                all += (VEC) * (const LOOSE *)(addend + i * s->addend_row + half * LANES);
            *out = (LOOSE)all;
        }
    }
}

#define TURNED_TILE(rows)                                                                                              \
    static void NAME(turned_##rows)(const gemm_steps *s, const void *a, const void *b, const void *from, void *c)      \
    {                                                                                                                  \
        NAME(turned)(rows, s, a, b, from, c);                                                                          \
    }
TURNED_TILES
#undef TURNED_TILE

/* Dot products of `rows` rows with x. The order is that of one row whatever `rows` is: four vectors of partial sums,
 * then the vectors pairwise, then their lanes in order, then the rest of k one by one. */
ALWAYS_INLINE void NAME(dot_rows)(const int rows, int64_t n, const ELEM *a, int64_t a_row, const ELEM *x, ELEM *out)
{
    enum { DEPTH = 4 };
    VEC sum[2][DEPTH];
    UNROLL for (int i = 0; i < rows; i++) { UNROLL for (int j = 0; j < DEPTH; j++) sum[i][j] = (VEC){ 0 }; }
    int64_t k = 0;
    for (; k + DEPTH * LANES <= n; k += DEPTH * LANES) {
        UNROLL for (int j = 0; j < DEPTH; j++)
        {
            const VEC right = *(const LOOSE *)(x + k + j * LANES);
            UNROLL for (int i = 0; i < rows; i++) sum[i][j] += *(const LOOSE *)(a + i * a_row + k + j * LANES) * right;
        }
    }
    for (; k + LANES <= n; k += LANES) {
        const VEC right = *(const LOOSE *)(x + k);
        UNROLL for (int i = 0; i < rows; i++) sum[i][0] += *(const LOOSE *)(a + i * a_row + k) * right;
    }
    for (int i = 0; i < rows; i++) {
        const VEC total = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
        ELEM dot = 0, rest = 0;
        for (int lane = 0; lane < LANES; lane++)
            dot += total[lane];
        for (int64_t t = k; t < n; t++)
            rest += a[i * a_row + t] * x[t];
        out[i] = dot + rest;
    }
}

/* The same for rows shorter than a vector: only the rest of k is there, of several rows side by side, so that their
 * additions do not wait for each other. */
ALWAYS_INLINE void NAME(short_rows)(const int rows, int64_t n, const ELEM *a, int64_t a_row, const ELEM *x, ELEM *out)
{
    ELEM rest[8] = { 0 };
    for (int64_t t = 0; t < n; t++)
        UNROLL for (int i = 0; i < rows; i++) rest[i] += a[i * a_row + t] * x[t];
    UNROLL for (int i = 0; i < rows; i++) out[i] = rest[i];
}

static void NAME(dots)(int64_t rows, int64_t k, const void *a, int64_t a_row, const void *x, void *out)
{
    const ELEM *row = a;
    ELEM *to = out;
    int64_t i = 0;
    if (k < LANES) {
        for (; i + 8 <= rows; i += 8)
            NAME(short_rows)(8, k, row + i * a_row, a_row, x, to + i);
        for (; i < rows; i++)
            NAME(short_rows)(1, k, row + i * a_row, a_row, x, to + i);
        return;
    }
    for (; i + 2 <= rows; i += 2)
        NAME(dot_rows)(2, k, row + i * a_row, a_row, x, to + i);
    if (i < rows)
        NAME(dot_rows)(1, k, row + i * a_row, a_row, x, to + i);
}

static void NAME(pack)(int64_t rows, const void *b, int64_t b_row, void *to)
{
    enum { AHEAD = 8 };
    const ELEM *row = b;
    VEC *panel = to;
    for (int64_t i = 0; i < rows; i++, row += b_row, panel += 2) {
        UNROLL for (int v = 0; v < 2; v++) __builtin_prefetch(row + AHEAD * b_row + v * LANES, 0, 3);
        __builtin_prefetch(row + AHEAD * b_row + 2 * LANES - 1, 0, 3);
        panel[0] = (VEC) * (const LOOSE *)row;
        panel[1] = (VEC) * (const LOOSE *)(row + LANES);
    }
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

enum { NAME(SQUARES) = (TILE_ROWS + LANES - 1) / LANES };

/* Squares of a's rows, turned; `left` of k are there. Vectors are stored whole: what follows overwrites what lies
 * beyond the rows. */
ALWAYS_INLINE void NAME(pack_squares)(int rows, const ELEM *const *lines, int64_t at, int64_t left, ELEM *to)
{
    VEC v[NAME(SQUARES)][LANES];
    UNROLL for (int s = 0; s < NAME(SQUARES); s++)
    {
        UNROLL for (int i = 0; i < LANES; i++)
        {
            const ELEM *from = lines[s * LANES + i] + at;
            if (left >= LANES) {
                v[s][i] = *(const LOOSE *)from;
            } else {
                v[s][i] = (VEC){ 0 };
                memcpy(&v[s][i], from, (size_t)left * sizeof(ELEM));
            }
        }
        STAGES(v[s])
    }
    UNROLL for (int t = 0; t < LANES; t++)
    {
        if (t < left)
            UNROLL for (int s = 0; s < NAME(SQUARES); s++) * (LOOSE *)(to + t * rows + s * LANES) = (LOOSE)v[s][t];
    }
}

static void NAME(pack_rows)(int rows, int64_t k, const ELEM *a, int64_t a_row, ELEM *to)
{
    const ELEM *lines[NAME(SQUARES) * LANES];
    for (int i = 0; i < NAME(SQUARES) * LANES; i++)
        lines[i] = a + (i < rows ? i : rows - 1) * a_row;
    int64_t at = 0;
    for (; at + LANES <= k; at += LANES)
        NAME(pack_squares)(rows, lines, at, LANES, to + at * rows);
    if (at < k)
        NAME(pack_squares)(rows, lines, at, k - at, to + at * rows);
}

/* The same where the columns are contiguous: the first and the last `part` bytes of each, a constant when inlined. */
ALWAYS_INLINE void NAME(pack_parts)(const size_t part, int rows, int64_t k, const ELEM *a, int64_t a_col, ELEM *to)
{
    enum { AHEAD = 16 };
    const size_t last = (size_t)rows * sizeof(ELEM) - part;
    for (int64_t at = 0; at < k; at++, a += a_col, to += rows) {
        __builtin_prefetch(a + AHEAD * a_col, 0, 3); /* nothing in addresses far apart tells the hardware */
        __builtin_prefetch(a + AHEAD * a_col + rows - 1, 0, 3);
        memcpy(to, a, part);
        memcpy((char *)to + last, (const char *)a + last, part);
    }
}

static void NAME(pack_a)(int rows, int64_t k, const void *from, int64_t a_row, int64_t a_col, void *to)
{
    const ELEM *a = from;
    const size_t bytes = (size_t)rows * sizeof(ELEM);
    if (a_col == 1)
        NAME(pack_rows)(rows, k, a, a_row, to);
    else if (a_row == 1 && bytes >= 64)
        NAME(pack_parts)(64, rows, k, a, a_col, to);
    else if (a_row == 1 && bytes >= 32)
        NAME(pack_parts)(32, rows, k, a, a_col, to);
    else if (a_row == 1 && bytes >= 16)
        NAME(pack_parts)(16, rows, k, a, a_col, to);
    else
        for (int64_t at = 0; at < k; at++)
            for (int i = 0; i < rows; i++)
                ((ELEM *)to)[at * rows + i] = a[at * a_col + i * a_row];
}

static void NAME(store)(int rows, int64_t cols, const void *tile, void *c, int64_t c_row, int64_t c_col, bool add)
{
    for (int i = 0; i < rows; i++) {
        const ELEM *from = (const ELEM *)tile + i * 2 * LANES;
        ELEM *to = (ELEM *)c + i * c_row;
        for (int64_t j = 0; j < cols; j++)
            to[j * c_col] = add ? to[j * c_col] + from[j] : from[j];
    }
}

static void NAME(add_up)(int64_t m, int64_t steps, const void *sums, void *c, int64_t c_row, bool add)
{
    for (int64_t i = 0; i < m; i++) {
        const ELEM *sum = (const ELEM *)sums + i;
        ELEM *to = (ELEM *)c + i * c_row;
        ELEM total = add ? *to + sum[0] : sum[0];
        for (int64_t step = 1; step < steps; step++)
            total += sum[step * m];
        *to = total;
    }
}

#if LEAN_TILES
#define LEAN(rows)                                                                                                     \
    .lean[GEMM_A_ROWS][0][rows] = NAME(in_place_##rows), .lean[GEMM_A_ROWS][1][rows] = NAME(in_place_carrying_##rows), \
    .lean[GEMM_A_COLUMNS][0][rows] = NAME(columns_##rows),                                                             \
    .lean[GEMM_A_COLUMNS][1][rows] = NAME(columns_carrying_##rows),                                                    \
    .lean[GEMM_A_PACKED][0][rows] = NAME(packed_##rows), .lean[GEMM_A_PACKED][1][rows] = NAME(packed_carrying_##rows), \
    .strung[rows] = NAME(strung_##rows),
#else
#define LEAN(rows)
#endif
#define TILE(rows, panels) .tile[rows] = NAME(tile_##rows##_##panels), .narrow[rows] = NAME(narrow_##rows), LEAN(rows)
#define WIDE_TILE(rows, panels) .wide[rows] = NAME(tile_##rows##_##panels), .wide_panels[rows] = panels,
#define PAIR_TILE(rows, panels) .pair[rows] = NAME(tile_##rows##_##panels),
#define TURNED_TILE(rows)       .turned[rows] = NAME(turned_##rows),
/* clang-format off */
static const gemm_kernels NAME(table) = {
    .size = sizeof(ELEM), .mr = TILE_ROWS, .nr = 2 * LANES, .flops_per_ns = FLOPS_PER_NS,
    TILES WIDE_TILES PAIR_TILES TURNED_TILES
    .dots = NAME(dots), .pack = NAME(pack), .pack_a = NAME(pack_a), .store = NAME(store), .add_up = NAME(add_up),
};
/* clang-format on */
#undef TILE
#undef LEAN
#undef WIDE_TILE
#undef PAIR_TILE
#undef TURNED_TILE
#undef VEC
#undef LOOSE
#undef LANES
#undef ELEM
#undef STAGES
#undef NAME
#undef FLOPS_PER_NS
#undef LEAN_TILES
#undef ADD_PRODUCT
#undef ADD_SCALED
