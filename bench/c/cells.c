/* cells.c: cells by hand; compiled once per ISA level with the flags of our own kernels. */
#include "cells.h"

#include "cpu/ew_internal.h"
#include "cpu/vmath.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

static void lstm(int64_t n, const lstm_cell *c)
{
    float *i = c->gates, *f = i + c->width, *g = f + c->width, *o = g + c->width;
    float *cells = c->cells, *squashed = c->squashed, *state = c->state;
    const float *before = c->before;
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        i[k] = sigmoid_f(i[k]);
        f[k] = sigmoid_f(f[k]);
        g[k] = tanh_f(g[k]);
        o[k] = sigmoid_f(o[k]);
    }
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        const float cell = f[k] * before[k] + i[k] * g[k], t = tanh_f(cell);
        cells[k] = cell;
        squashed[k] = t;
        state[k] = o[k] * t;
    }
}

static void lstm_back(int64_t n, const lstm_slope *s)
{
    const float *i = s->gates, *f = i + n, *g = f + n, *o = g + n;
    const float *before = s->before, *squashed = s->squashed, *state = s->state, *more = s->more;
    float *di = s->sums, *df = di + n, *dg = df + n, *d_o = dg + n, *cells = s->cells;
    const float scale = s->scale;
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        const float dh = scale * state[k] + more[k], t = squashed[k];
        const float dc = cells[k] + dh * o[k] * (1 - t * t);
        d_o[k] = dh * t * o[k] * (1 - o[k]);
        di[k] = dc * g[k] * i[k] * (1 - i[k]);
        df[k] = dc * before[k] * f[k] * (1 - f[k]);
        dg[k] = dc * i[k] * (1 - g[k] * g[k]);
        cells[k] = dc * f[k];
    }
}

static void gru(int64_t n, const gru_cell *c)
{
    float *r = c->gates, *z = r + n, *m = z + n, *candidate = c->candidate, *state = c->state;
    const float *own_r = c->own, *own_z = own_r + n, *own_m = own_z + n, *before = c->before;
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        r[k] = sigmoid_f(r[k] + own_r[k]);
        z[k] = sigmoid_f(z[k] + own_z[k]);
    }
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        candidate[k] = own_m[k];
        m[k] = tanh_f(m[k] + r[k] * own_m[k]);
        state[k] = (before[k] - m[k]) * z[k] + m[k];
    }
}

static void gru_back(int64_t n, const gru_slope *s)
{
    const float *r = s->gates, *z = r + n, *m = z + n, *candidate = s->candidate, *before = s->before;
    const float *state = s->state, *more = s->more;
    float *dr = s->sums, *dz = dr + n, *dm = dz + n, *own_r = s->own, *own_z = own_r + n, *own_m = own_z + n;
    float *earlier = s->earlier;
    const float scale = s->scale;
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        const float dh = scale * state[k] + more[k], sum = dh * (1 - z[k]) * (1 - m[k] * m[k]);
        dm[k] = sum;
        own_m[k] = sum * r[k];
        own_r[k] = dr[k] = sum * candidate[k] * r[k] * (1 - r[k]);
        own_z[k] = dz[k] = dh * (before[k] - m[k]) * z[k] * (1 - z[k]);
        earlier[k] = dh * z[k];
    }
}

const cell_loops JOIN(cells_, ISA_NAME) = { lstm, lstm_back, gru, gru_back };
