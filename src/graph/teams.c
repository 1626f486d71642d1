/* teams.c: stretches of few rows, which the cores go through together.
 *
 * A step of a recurrence over one sequence is a vector times a matrix: microseconds, too short to hand out, and bound
 * by the cache that the matrix lies in, of which every core has its own. So a stretch of such instructions is handed
 * out once: each member of the team computes its columns of every instruction, the same ones each time, and keeps its
 * columns of the weights near. Members meet where one touches what another may still be at, and only there.
 *
 * Invariant: two instructions of a team between which nobody waits touch no byte in common that one of them writes,
 * unless each member touches its own: as many columns, from the same address on, or a whole number of widths, as far
 * apart (the four gates of an LSTM are four widths: who computes a column of all four has what its cell needs). It is
 * kept over places in memory, as the plan is built already, so that memory that changes hands needs no other rule. */
#include "graph/builder.h"

#include <string.h>

#include "core/memory.h"
#include "graph/desk.h"
#include "graph/run.h"

enum {
    MOST_ROWS = 3,
    MOST_COPIED = 1 << 14, /* elements */
    MOST_BYTES = 1 << 21,  /* of a factor: larger ones keep all cores busy by themselves */
    FEWEST_PRODUCTS = 2,
    LEAST_WIDTH = 128,
    WIDTHS = 8,        /* different ones that are looked at */
    MOST_TOUCHED = 40, /* views of an instruction */
    MOST_REMEMBERED = 2 * MOST_TOUCHED,
};
static const double MOST_NS = 20e3; /* of an elementwise group: for the same reason */

/* Bytes that an instruction touches. */
typedef struct span {
    int64_t memory; /* which: the arena, a storage */
    int64_t begin, end;
    int64_t columns, unit; /* members touch their columns only, of `unit` bytes; 0: all of it */
    bool writes;
} span;

/* How many instructions of a stretch have so many columns. */
typedef struct width {
    int64_t columns;
    int count;
} width;

typedef struct finder {
    planner *p;
    plan *made;
    plan_region *regions;
    int count;
    plan_region open;
    int products;
    width widths[WIDTHS];         /* of the stretch that is open */
    span before[MOST_REMEMBERED]; /* what was touched since somebody waited */
    span now[MOST_TOUCHED];       /* what an instruction touches */
    int remembered, touched;
} finder;

/* --- what an instruction touches ---------------------------------------------------------------------------------- */

static void touch_bytes(finder *f, int32_t buffer, int64_t at, int64_t bytes, int64_t columns, int64_t unit,
                        bool writes)
{
    const plan_buffer *b = &f->made->buffers[buffer];
    int64_t memory = 1 + buffer;
    if (b->kind == BUFFER_TEMPORARY) {
        memory = 0;
        at += b->at;
    } else if (b->kind == BUFFER_LEAF) { /* leaves may lie in one storage */
        const leaf_key *leaf = &f->made->key.leaf[b->leaf];
        memory = -1 - leaf->memory;
        at += leaf->offset;
    }
    f->now[f->touched++] = (span){ memory, at, at + bytes, columns, unit, writes };
}

static void touch_view(finder *f, const plan_view *v, int64_t columns, bool writes)
{
    const int64_t size = (int64_t)dtype_size(v->dtype);
    touch_bytes(f, v->buffer, v->offset * size, v->layout->span * size, columns, size, writes);
}

/* Ports that are lines have an element for each of the program's, one after the other. */
static void touch_program(finder *f, const plan_program *q, bool by_columns)
{
    const ew_program *program = q->program;
    for (int i = 0; i < program->ports; i++) {
        const bool line = by_columns && program->port[i].mode == PORT_LINE;
        touch_view(f, &q->ports[i], line ? program->numel : 0, program->port[i].writes);
    }
}

static void touch_product(finder *f, const instruction *in)
{
    const layout *b = in->kernel.in[1].layout, *c = in->kernel.out.layout;
    const int64_t rows = c->sizes[0], n = c->sizes[1], unit = b->sizes[0] * (int64_t)dtype_size(in->kernel.out.dtype);
    touch_view(f, &in->kernel.in[0], 0, false);
    if (in->kernel.packed >= 0)
        touch_bytes(f, in->kernel.packed, 0, f->made->buffers[in->kernel.packed].bytes, n, unit, in->kernel.packs);
    if (in->kernel.packed < 0 || in->kernel.packs || in->kernel.loose)
        touch_view(f, &in->kernel.in[1], 0, false);
    if (in->kernel.addend.buffer >= 0)
        touch_view(f, &in->kernel.addend, rows == 1 ? n : 0, false);
    touch_view(f, &in->kernel.out, rows == 1 ? n : 0, true);
    if (in->kernel.epilogue.program)
        touch_program(f, &in->kernel.epilogue, rows == 1);
}

static void touch_all(finder *f, const instruction *in)
{
    f->touched = 0;
    if (in->kind == DO_PROGRAM) {
        touch_program(f, &in->elementwise, true);
    } else if (in->kind == DO_KERNEL) {
        touch_product(f, in);
    } else {
        const int64_t columns = copies_columns(in) ? in->copy.to.layout->numel : 0;
        touch_view(f, &in->copy.from, columns, false);
        touch_view(f, &in->copy.to, columns, true);
    }
}

/* Whether members touch their own bytes in both, the same ones. */
static bool split_alike(const span *a, const span *b, int64_t width)
{
    if (!a->columns || !b->columns || a->unit != b->unit)
        return false;
    if (a->columns == b->columns && a->begin == b->begin)
        return true;
    return width && a->columns % width == 0 && b->columns % width == 0 &&
           (a->begin - b->begin) % (width * a->unit) == 0;
}

static bool collide(const span *a, const span *b, int64_t width)
{
    return a->memory == b->memory && (a->writes || b->writes) && a->begin < b->end && b->begin < a->end &&
           !split_alike(a, b, width);
}

static bool must_wait(const finder *f)
{
    for (int i = 0; i < f->touched; i++)
        for (int k = 0; k < f->remembered; k++)
            if (collide(&f->now[i], &f->before[k], f->open.together))
                return true;
    return f->remembered + f->touched > MOST_REMEMBERED;
}

/* A product that writes over its first factor cannot be split: all of its columns read all of it. */
static bool writes_over_factor(finder *f, const instruction *in)
{
    const plan_program *tail = &in->kernel.epilogue;
    bool over = false;
    f->touched = 0;
    touch_view(f, &in->kernel.in[0], 0, false);
    touch_view(f, &in->kernel.out, 0, true);
    if (in->kernel.packs)
        touch_bytes(f, in->kernel.packed, 0, f->made->buffers[in->kernel.packed].bytes, 0, 1, true);
    for (int i = 0; tail->program && i < tail->program->ports; i++)
        if (tail->program->port[i].writes)
            touch_view(f, &tail->ports[i], 0, true);
    for (int i = 1; i < f->touched; i++)
        over |= collide(&f->now[i], &f->now[0], 0);
    return over;
}

/* Whether what a product touches can be remembered: see touch_product. */
static bool is_simple(const instruction *in)
{
    const ew_program *tail = in->kernel.epilogue.program;
    const int packed = in->kernel.packed >= 0, plain = !packed || in->kernel.packs || in->kernel.loose;
    return 2 + packed + plain + (in->kernel.addend.buffer >= 0) + (tail ? tail->ports : 0) <= MOST_TOUCHED;
}

/* --- stretches ---------------------------------------------------------------------------------------------------- */

static bool is_few_rows(const instruction *in)
{
    const plan_view *b = &in->kernel.in[1];
    const layout *c = in->kernel.out.layout;
    const ew_program *tail = in->kernel.epilogue.program;
    return in->op == OP_matmul && c->ndim == 2 && c->sizes[0] >= 1 && c->sizes[0] <= MOST_ROWS && c->sizes[1] > 1 &&
           c->strides[1] == 1 && b->layout->sizes[0] >= 1 && (in->kernel.packed >= 0 || b->layout->strides[1] == 1) &&
           b->layout->numel * (int64_t)dtype_size(b->dtype) <= MOST_BYTES &&
           (!tail || (tail->numel == c->numel && !in->kernel.epilogue.sink_count));
}

static bool fits_team(const instruction *in)
{
    switch (in->kind) {
    case DO_PROGRAM:
        return !in->elementwise.sink_count && in->elementwise.program->work_ns < MOST_NS &&
               in->elementwise.program->ports <= MOST_TOUCHED;
    case DO_COPY: return in->copy.to.layout->numel <= MOST_COPIED;
    case DO_KERNEL: return is_few_rows(in);
    default: return false;
    }
}

/* About what it takes one core, in nanoseconds: 100 bytes of a factor for each, and 60 to begin. */
static double work_of(const instruction *in)
{
    if (in->kind == DO_COPY)
        return 60 + 0.1 * (double)in->copy.to.layout->numel;
    if (in->kind == DO_PROGRAM)
        return 60 + in->elementwise.program->work_ns;
    const plan_view *b = &in->kernel.in[1];
    const ew_program *tail = in->kernel.epilogue.program;
    return 60 + 0.01 * (double)b->layout->numel * (double)dtype_size(b->dtype) + (tail ? 60 + tail->work_ns : 0);
}

static void count_width(finder *f, int64_t columns)
{
    int k = 0;
    while (k < WIDTHS && f->widths[k].count && f->widths[k].columns != columns)
        k++;
    if (k < WIDTHS) {
        f->widths[k].columns = columns;
        f->widths[k].count++;
    }
}

/* The least number of columns that a good part of the instructions have. */
static int64_t width_of(const finder *f)
{
    int64_t least = 0;
    for (int k = 0; k < WIDTHS; k++) {
        const width *w = &f->widths[k];
        if (w->count * 4 >= f->open.end - f->open.first && w->columns >= LEAST_WIDTH &&
            w->columns % GEMM_COLUMNS == 0 && (!least || w->columns < least))
            least = w->columns;
    }
    return least;
}

static void add_member(finder *f, instruction *in)
{
    touch_all(f, in);
    in->waits = must_wait(f);
    if (in->waits) {
        f->remembered = 0;
        f->open.waits++;
    }
    memcpy(f->before + f->remembered, f->now, (size_t)f->touched * sizeof *f->now);
    f->remembered += f->touched;
    f->open.work_ns += work_of(in);
}

static void close_team(finder *f)
{
    if (f->products >= FEWEST_PRODUCTS) {
        const instruction *in = &f->made->code[f->open.first];
        f->open.together = width_of(f);
        f->remembered = 0;
        for (int32_t at = f->open.first; at < f->open.end; at++)
            add_member(f, &f->made->code[at]);
        f->regions[f->count++] = f->open;
        report_fact(&f->p->report, FACT_TEAM, in->record, op_get(in->op)->name);
    }
    f->products = 0;
    memset(f->widths, 0, sizeof f->widths);
    f->open = (plan_region){ 0 };
}

/* Instruction `at` begins a stretch, goes on with one, or ends it. */
static void visit(finder *f, int32_t at)
{
    const instruction *in = &f->made->code[at];
    bool fits = fits_team(in);
    if (fits && in->kind == DO_KERNEL)
        fits = is_simple(in) && !writes_over_factor(f, in);
    if (!fits) {
        close_team(f);
        return;
    }
    if (!f->open.end)
        f->open.first = at;
    f->open.end = at + 1;
    f->products += in->kind == DO_KERNEL;
    count_width(f, team_columns(in));
}

bool find_teams(planner *p, plan *made)
{
    if (!(rewrites_done & REWRITE_teams))
        return true;
    finder f = { .p = p, .made = made };
    int most = made->region_count + made->code_count / FEWEST_PRODUCTS;
    f.regions = desk_take((size_t)most * sizeof *f.regions);
    if (!f.regions)
        return false;
    const plan_region *next = made->regions, *last = next + made->region_count;
    for (int32_t at = 0; at < made->code_count; at++) {
        if (next < last && next->first == at) {
            close_team(&f);
            at = next->end - 1;
            f.regions[f.count++] = *next++;
        } else {
            visit(&f, at);
        }
    }
    close_team(&f);
    plan_region *kept = mem_resize(made->regions, (size_t)f.count * sizeof *kept);
    if (!kept)
        return false;
    made->regions = memcpy(kept, f.regions, (size_t)f.count * sizeof *kept);
    made->region_count = f.count;
    return true;
}
