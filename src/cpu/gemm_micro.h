/* gemm_micro.h: the micro-kernels for one element type; gemm_kernels.c includes it once per type.
 *
 * Before: ELEM (element type), NAME(x) (x with a suffix for the type), STAGES(v) (transposes the LANES vectors of v),
 * FLOPS_PER_NS. The shape of the tiles comes from gemm_kernels.c. Everything here is undefined again at the end. */

typedef ELEM NAME(vec) __attribute__((vector_size(VECTOR_BYTES)));
typedef ELEM NAME(vec_loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEM)), may_alias));
#define VEC   NAME(vec)
#define LOOSE NAME(vec_loose)
#define LANES ((int)(VECTOR_BYTES / sizeof(ELEM)))

/* A tile of `rows` x `wide` vectors, two of them from each panel, all of them in registers: the two counts are
 * constants wherever this is inlined, and every loop over them is unrolled. */
ALWAYS_INLINE void NAME(tile)(const int rows, const int wide, const gemm_steps *s, const ELEM *a, const ELEM *b,
                              const ELEM *from, ELEM *c)
{
    const int64_t a_col = s->a_col, b_row = s->b_row, b_panel = s->b_panel, c_row = s->c_row, from_row = s->from_row;
    /* Columns of a that are apart come from L2: asked for when read, they hold up the loads after them. */
    const int64_t ahead = 8 * a_col;
    /* Rows of a: three pointers and multiples of the stride that an address can hold. Left alone, gcc keeps one offset
     * per row, runs out of integer registers, and moves them through the vector unit. */
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
    const ELEM *start = from ? from : c, *addend = s->addend;
    const int64_t addend_row = s->addend_row;
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < wide; j++)
        {
            LOOSE *out = (LOOSE *)(c + i * c_row + j * LANES);
            const LOOSE *first = (const LOOSE *)(start + i * from_row + j * LANES);
            VEC all = from ? (VEC)*first + sum[i][j] : sum[i][j];
            if (addend)
                all += (VEC) * (const LOOSE *)(addend + i * addend_row + j * LANES);
            *out = (LOOSE)all;
        }
    }
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

static void NAME(dots)(int64_t rows, int64_t k, const void *a, int64_t a_row, const void *x, void *out)
{
    const ELEM *row = a;
    ELEM *to = out;
    int64_t i = 0;
    for (; i + 2 <= rows; i += 2)
        NAME(dot_rows)(2, k, row + i * a_row, a_row, x, to + i);
    if (i < rows)
        NAME(dot_rows)(1, k, row + i * a_row, a_row, x, to + i);
}

static void NAME(pack)(int64_t rows, const void *b, int64_t b_row, void *to)
{
    const ELEM *row = b;
    VEC *panel = to;
    for (int64_t i = 0; i < rows; i++, row += b_row, panel += 2) {
        panel[0] = (VEC) * (const LOOSE *)row;
        panel[1] = (VEC) * (const LOOSE *)(row + LANES);
    }
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

#define TILE(rows, panels)      .tile[rows] = NAME(tile_##rows##_##panels), .narrow[rows] = NAME(narrow_##rows),
#define WIDE_TILE(rows, panels) .wide[rows] = NAME(tile_##rows##_##panels), .wide_panels[rows] = panels,
#define PAIR_TILE(rows, panels) .pair[rows] = NAME(tile_##rows##_##panels),
#define TURNED_TILE(rows)       .turned[rows] = NAME(turned_##rows),
/* clang-format off */
static const gemm_kernels NAME(table) = {
    .size = sizeof(ELEM), .mr = TILE_ROWS, .nr = 2 * LANES, .flops_per_ns = FLOPS_PER_NS,
    TILES WIDE_TILES PAIR_TILES TURNED_TILES
    .dots = NAME(dots), .pack = NAME(pack), .store = NAME(store), .add_up = NAME(add_up),
};
/* clang-format on */
#undef TILE
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
