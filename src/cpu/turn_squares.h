/* turn_squares.h: the transposing copies for one element size; turn_kernels.c includes it once per size.
 *
 * Before: ELEM (element type), NAME(x) (x with a suffix for the type), STAGES(v) (transposes the LANES vectors of v).
 * A tile is one cache line wide and as many lines high as a vector has lanes, so that lines of `to` are written whole.
 * Everything here is undefined again at the end. */

typedef ELEM NAME(vec) __attribute__((vector_size(VECTOR_BYTES)));
typedef ELEM NAME(vec_loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEM)), may_alias));
#define VEC   NAME(vec)
#define LOOSE NAME(vec_loose)
#define LANES ((int)(VECTOR_BYTES / sizeof(ELEM)))
#define LINE  ((int)(64 / sizeof(ELEM)))

enum { NAME(ROWS_TOGETHER) = 4 * LINE }; /* lines of `from` read in one go: what the prefetchers like */

ALWAYS_INLINE void NAME(square)(VEC *v, const ELEM *from, int64_t from_col)
{
    UNROLL for (int j = 0; j < LANES; j++) v[j] = *(const LOOSE *)(from + j * from_col);
    STAGES(v)
}

/* A tile of LANES rows and a line of columns. */
ALWAYS_INLINE void NAME(tile)(const bool past_caches, const ELEM *from, int64_t from_col, ELEM *to, int64_t to_row)
{
    VEC turned[LINE / LANES][LANES];
    UNROLL for (int s = 0; s < LINE / LANES; s++) NAME(square)(turned[s], from + s * LANES * from_col, from_col);
    UNROLL for (int i = 0; i < LANES; i++)
    {
        UNROLL for (int s = 0; s < LINE / LANES; s++)
        {
            ELEM *out = to + i * to_row + s * LANES;
            if (past_caches)
                STREAM(out, turned[s][i]);
            else
                *(LOOSE *)out = (LOOSE)turned[s][i];
        }
    }
}

/* A square of which only some rows and columns exist. */
static void NAME(edge)(int64_t rows, int64_t cols, const ELEM *from, int64_t from_col, ELEM *to, int64_t to_row)
{
    VEC v[LANES];
    const size_t column_bytes = (size_t)rows * sizeof(ELEM), row_bytes = (size_t)cols * sizeof(ELEM);
    for (int j = 0; j < LANES; j++) {
        v[j] = (VEC){ 0 };
        if (j < cols)
            memcpy(&v[j], from + j * from_col, column_bytes);
    }
    STAGES(v)
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * to_row, &v[i], row_bytes);
}

/* Squares over a matrix that no tile covers. */
static void NAME(edges)(int64_t rows, int64_t cols, const ELEM *from, int64_t from_col, ELEM *to, int64_t to_row)
{
    for (int64_t j = 0; j < cols; j += LANES)
        for (int64_t i = 0; i < rows; i += LANES) {
            const int64_t high = rows - i < LANES ? rows - i : LANES, wide = cols - j < LANES ? cols - j : LANES;
            NAME(edge)(high, wide, from + i + j * from_col, from_col, to + i * to_row + j, to_row);
        }
}

/* Down the columns for a few lines, then on along the rows: both sides stay within few pages. */
ALWAYS_INLINE void NAME(tiles)(const bool past_caches, int64_t rows, int64_t cols, const ELEM *from, int64_t from_col,
                               ELEM *to, int64_t to_row)
{
    const int64_t whole_rows = rows / LANES * LANES, whole_cols = cols / LINE * LINE;
    for (int64_t first = 0; first < whole_rows; first += NAME(ROWS_TOGETHER)) {
        const int64_t left = whole_rows - first,
                      end = first + (left < NAME(ROWS_TOGETHER) ? left : NAME(ROWS_TOGETHER));
        for (int64_t j = 0; j < whole_cols; j += LINE)
            for (int64_t i = first; i < end; i += LANES)
                NAME(tile)(past_caches, from + i + j * from_col, from_col, to + i * to_row + j, to_row);
    }
    NAME(edges)(whole_rows, cols - whole_cols, from + whole_cols * from_col, from_col, to + whole_cols, to_row);
    NAME(edges)(rows - whole_rows, cols, from + whole_rows, from_col, to + whole_rows * to_row, to_row);
}

static void NAME(turn)(int64_t rows, int64_t cols, const void *from, int64_t from_col, void *to, int64_t to_row)
{
    NAME(tiles)(false, rows, cols, from, from_col, to, to_row);
}

static void NAME(stream)(int64_t rows, int64_t cols, const void *from, int64_t from_col, void *to, int64_t to_row)
{
    NAME(tiles)(true, rows, cols, from, from_col, to, to_row);
    STREAM_FENCE();
}

#undef VEC
#undef LOOSE
#undef LANES
#undef LINE
#undef ELEM
#undef NAME
#undef STAGES
