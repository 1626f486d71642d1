/* cells.h: the cells of an LSTM and a GRU as one would write them by hand, a loop each, at each ISA level. */
#ifndef BENCH_CELLS_H
#define BENCH_CELLS_H
#include <stdint.h>

/* Of n units of a row: gates come as sums, one width after the other, and go as values. */
typedef struct lstm_cell {
    float *gates;        /* i, f, g, o */
    int64_t width;       /* from one gate to the next */
    const float *before; /* the cells of the step before */
    float *cells, *squashed, *state;
} lstm_cell;

/* From the gradient of the state (scale * state, and more to be added to it) to that of the gates' sums. */
typedef struct lstm_slope {
    const float *gates, *before, *squashed, *state, *more;
    float scale;
    float *cells; /* the gradient of the cells: of this step, then of the one before */
    float *sums;
} lstm_slope;

typedef struct gru_cell {
    float *gates;     /* the input's sums of r, z, n; then their values */
    const float *own; /* the state's */
    const float *before;
    float *candidate; /* what r was multiplied with: kept for the slope */
    float *state;
} gru_cell;

typedef struct gru_slope {
    const float *gates, *candidate, *before, *state, *more;
    float scale;
    float *sums, *own; /* the gradients of both sums */
    float *earlier;    /* what the state before gets past the product */
} gru_slope;

typedef struct cell_loops {
    void (*lstm)(int64_t n, const lstm_cell *c);
    void (*lstm_back)(int64_t n, const lstm_slope *s);
    void (*gru)(int64_t n, const gru_cell *c);
    void (*gru_back)(int64_t n, const gru_slope *s);
} cell_loops;

extern const cell_loops cells_baseline, cells_avx2, cells_avx512;

#endif
