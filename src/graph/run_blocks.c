/* run_blocks.c: running a region block of rows by block of rows.
 *
 * Threads take tasks of some blocks, which is what reductions over the rows are joined by: so neither the split nor the
 * region itself changes a result. All memory is taken before the first block runs. A thread's view of the plan's
 * buffers differs from the others' in its locals: their addresses are such that the block at hand lies in its scratch.
 */
#include <stdatomic.h>
#include <string.h>

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/rows.h"
#include "graph/blocks.h"
#include "graph/kernels.h"
#include "graph/run.h"

enum { MOST_MOMENTS = 512, MOMENT_BYTES = 8 }; /* of rows of a block: more are not kept */

/* What one thread works with. */
typedef struct desk {
    atomic_bool taken;
    binding *bound;
    char *locals, *passing; /* passing: what goes to sinks alone */
    char *moments;          /* of the rows that were standardised last, two arrays of MOST_MOMENTS */
} desk;

typedef struct blocks_run {
    const plan *plan;
    const plan_region *region;
    int64_t block, task; /* rows */
    desk *desks;
    int desk_count;
    reduce_feed **feeds; /* of the instructions in order, and of their sinks */
    int feed_count;
} blocks_run;

/* Rows [begin, end) of the region, as a thread sees them. */
typedef struct stretch {
    const blocks_run *run;
    desk *at;
    int64_t begin, end, last; /* last: where the thread's rows end */
    int feed;                 /* the next */
    int32_t far;              /* the next that was not asked for */
} stretch;

static int64_t bytes_of(const plan_view *v) { return (int64_t)dtype_size(v->dtype); }

/* --- reductions -------------------------------------------------------------------------------------------------- */

/* A line of rows of the last dimensions of l, `depth` of them. */
static void row_view(view *to, const layout *l, bk_dtype dtype, int depth, int64_t rows, char *data)
{
    int64_t step = 1;
    to->data = data;
    to->dtype = dtype;
    to->ndim = depth + 1;
    for (int d = depth; d > 0; d--) {
        to->sizes[d] = l->sizes[l->ndim - depth + d - 1];
        to->strides[d] = step;
        step *= to->sizes[d];
    }
    to->sizes[0] = rows;
    to->strides[0] = step;
}

static int64_t row_elements(const layout *l, int depth)
{
    int64_t n = 1;
    for (int d = l->ndim - depth; d < l->ndim; d++)
        n *= l->sizes[d];
    return n;
}

/* A reduction of each row, some rows at a time: the outputs of these need no memory. `from` is where the stretch's rows
 * are. */
static void reduce_rows(const stretch *s, reduce_kind kind, bool mean, uint32_t dims, const plan_view *out,
                        const plan_view *in, char *from)
{
    int depth = __builtin_popcount(dims);
    int64_t width = s->run->region->width;
    view src;
    row_view(&src, in->layout, in->dtype, depth, 0, from);
    int64_t each = src.strides[0], rows = (s->end - s->begin) * width / each, first = s->begin * width / each;
    char *to = address(s->at->bound, out) + first * bytes_of(out);
    for (int64_t n; rows > 0; rows -= n, src.data += n * each * bytes_of(in), to += n * bytes_of(out)) {
        n = rows < MOST_OUTPUTS ? rows : MOST_OUTPUTS;
        src.sizes[0] = n;
        view dst;
        dst.data = to;
        dst.dtype = out->dtype;
        dst.ndim = depth + 1;
        for (int d = 0; d <= depth; d++) {
            dst.sizes[d] = d ? 1 : n;
            dst.strides[d] = d ? 0 : 1;
        }
        uint32_t inner = dims_below(depth) << 1;
        if (mean)
            reduce_mean(&dst, &src, inner);
        else
            reduce_run(kind, &dst, &src, inner);
    }
}

/* --- instructions ------------------------------------------------------------------------------------------------ */

static void run_sinks(stretch *s, const plan_program *q, char *const *bases)
{
    int64_t width = s->run->region->width, begin = s->begin * width, end = s->end * width;
    for (int i = 0; i < q->sink_count; i++) {
        const plan_sink *sink = &q->sinks[i];
        const plan_view *in = &q->ports[sink->port];
        char *from = bases[sink->port] + begin * bytes_of(in);
        if (reduced_row(in->layout, q->dims, width))
            reduce_rows(s, sink->kind, sink->mean, q->dims, &sink->out, in, from);
        else
            reduce_feed_block(s->run->feeds[s->feed++], begin, end, from);
    }
}

/* Kernels over rows wait for memory, fused groups compute: so the rows of the next block come while those run. */
static void run_ahead(stretch *s, const ew_program *p, char *const *bases)
{
    const plan_region *r = s->run->region;
    ew_ahead ahead;
    bool any = s->end < s->last && s->far < r->far_count && p->steps > 1;
    for (int i = 0; i < 2 && any; i++, s->far += s->far < r->far_count) {
        const plan_local *f = &r->far[s->far < r->far_count ? s->far : s->far - 1];
        ahead.at[i] = s->at->bound[f->buffer].base + f->at + s->end * f->row;
        ahead.step[i] = f->row / r->width;
    }
    program_run_ahead(p, bases, s->begin * r->width, s->end * r->width, any ? &ahead : NULL);
}

static void run_program_rows(stretch *s, const plan_program *q)
{
    char *bases[q->program->ports], *passing = s->at->passing;
    bind_ports(q, s->at->bound, bases);
    int64_t width = s->run->region->width, begin = s->begin * width;
    for (int i = 0; i < q->sink_count; i++) {
        int32_t port = q->sinks[i].port;
        if (q->ports[port].buffer >= 0 || q->sinks[i].from != i)
            continue;
        bases[port] = (char *)((uintptr_t)passing - (uintptr_t)(begin * bytes_of(&q->ports[port])));
        passing += s->run->block * width * 8;
    }
    run_ahead(s, q->program, bases);
    run_sinks(s, q, bases);
}

static bool is_reduction(const instruction *in)
{
    int (*run)(const kernel_call *) = op_get(in->op)->run;
    return run == run_reduce || run == run_mean;
}

/* How many of the last dimensions make a row of the kernel's. */
static int depth_of(const instruction *in)
{
    return op_get(in->op)->run == run_rows ? (int)in->kernel.attr.i[0]
                                           : __builtin_popcountll((uint64_t)in->kernel.attr.reduce.dims);
}

static bool writes_to(const instruction *in, int32_t buffer)
{
    const plan_program *q = &in->elementwise;
    if (in->kind != DO_PROGRAM)
        return in->kernel.out.buffer == buffer || (in->kernel.has_second && in->kernel.second.buffer == buffer);
    for (int i = 0; i < q->program->ports; i++)
        if (q->program->port[i].writes && q->ports[i].buffer == buffer)
            return true;
    return false;
}

/* What is standardised: x, which stands behind a gradient. */
static const plan_view *standardised(const instruction *in) { return &in->kernel.in[in->kernel.inputs == 2]; }

static bool is_centred(const instruction *in) { return in->op == OP_standardise || in->op == OP_standardise_back; }
static bool has_moments(const instruction *in)
{
    return in->kind == DO_KERNEL && (is_centred(in) || in->op == OP_unit_rows || in->op == OP_unit_rows_back);
}

/* Whether the moments that the gradient `in` wants are those that were computed last in its block: of the same rows,
 * which nobody has written to since. */
static bool moments_known(const blocks_run *r, const instruction *in)
{
    const plan_view *x = standardised(in);
    for (const instruction *p = in - 1; p >= r->plan->code + r->region->first; p--) {
        if (writes_to(p, x->buffer))
            return false;
        if (has_moments(p)) {
            const plan_view *y = standardised(p);
            return is_centred(p) == is_centred(in) && y->buffer == x->buffer && y->offset == x->offset &&
                   y->layout == x->layout && y->dtype == x->dtype && p->kernel.attr.i[0] == in->kernel.attr.i[0] &&
                   p->kernel.attr.d[1] == in->kernel.attr.d[1];
        }
    }
    return false;
}

/* A kernel that gives a row for each row, or a number. */
static void run_kernel_rows(const stretch *s, const instruction *in)
{
    int depth = depth_of(in);
    int64_t width = s->run->region->width;
    attr a = in->kernel.attr;
    if (op_get(in->op)->run != run_rows)
        a.reduce.dims = (int64_t)dims_below(depth) << 1;
    kernel_call call;
    call_begin(&call, in, &a);
    const layout *l = in->kernel.in[0].layout;
    int64_t each = row_elements(l, depth);
    bool shrinks = in->kernel.out.layout->numel != l->numel;
    row_moments moments = { .mean = s->at->moments, .scale = s->at->moments + MOST_MOMENTS * MOMENT_BYTES };
    if (has_moments(in) && s->run->block * width / each <= MOST_MOMENTS) {
        moments.known = in->kernel.inputs == 2 && moments_known(s->run, in);
        call.moments = &moments;
    }
    int64_t first = s->begin * width / each, last = s->end * width / each, most = shrinks ? MOST_OUTPUTS : last;
    for (int64_t n; first < last; first += n) {
        n = last - first < most ? last - first : most;
        for (int k = 0; k < call.inputs; k++) {
            const plan_view *v = &in->kernel.in[k];
            row_view(&call.in[k], l, v->dtype, depth, n, address(s->at->bound, v) + first * each * bytes_of(v));
        }
        const plan_view *out = &in->kernel.out;
        char *to = address(s->at->bound, out) + first * (shrinks ? 1 : each) * bytes_of(out);
        row_view(&call.out, l, out->dtype, shrinks ? 0 : depth, n, to);
        op_get(in->op)->run(&call); /* takes no memory: cannot fail */
    }
}

static void run_kernel(stretch *s, const instruction *in)
{
    const plan_view *from = &in->kernel.in[0];
    int64_t width = s->run->region->width;
    if (!is_reduction(in) || reduced_row(from->layout, (uint32_t)in->kernel.attr.reduce.dims, width)) {
        run_kernel_rows(s, in);
        return;
    }
    char *p = address(s->at->bound, from) + s->begin * width * bytes_of(from);
    reduce_feed_block(s->run->feeds[s->feed++], s->begin * width, s->end * width, p);
}

static void run_block(const blocks_run *r, desk *at, int64_t begin, int64_t end, int64_t last)
{
    stretch s = { .run = r, .at = at, .begin = begin, .end = end, .last = last };
    for (int32_t i = 0; i < r->region->local_count; i++) {
        const plan_local *l = &r->region->locals[i];
        at->bound[l->buffer].base = (char *)((uintptr_t)(at->locals + l->at) - (uintptr_t)(begin * l->row));
    }
    for (int32_t i = r->region->first; i < r->region->end; i++) {
        const instruction *in = &r->plan->code[i];
        if (in->kind == DO_PROGRAM)
            run_program_rows(&s, &in->elementwise);
        else
            run_kernel(&s, in);
    }
}

static void run_tasks(void *arg, int64_t begin, int64_t end)
{
    blocks_run *r = arg;
    desk *at = r->desks;
    while (atomic_exchange(&at->taken, true)) /* there are as many as threads */
        at = at + 1 < r->desks + r->desk_count ? at + 1 : r->desks;
    int64_t last = end * r->task < r->region->rows ? end * r->task : r->region->rows;
    for (int64_t row = begin * r->task; row < last; row += r->block)
        run_block(r, at, row, last - row < r->block ? last : row + r->block, last);
    atomic_store(&at->taken, false);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static bool open_feed(blocks_run *r, const binding *bound, const plan_view *in, const plan_view *out, reduce_kind kind,
                      bool mean, uint32_t dims)
{
    if (reduced_row(in->layout, dims, r->region->width))
        return true;
    reduce_sink sink = { .kind = kind, .mean = mean };
    view dst;
    layout_view(&sink.src, in->layout, in->dtype, NULL);
    layout_view(&dst, out->layout, out->dtype, address(bound, out));
    kept_dims(&sink.dst, &dst, in->layout->ndim, dims);
    r->feeds[r->feed_count] = reduce_feed_open(&sink, dims);
    return r->feeds[r->feed_count] && ++r->feed_count;
}

static bool open_feeds(blocks_run *r, const binding *bound)
{
    for (int32_t i = r->region->first; i < r->region->end; i++) {
        const instruction *in = &r->plan->code[i];
        const plan_program *q = &in->elementwise;
        if (in->kind == DO_PROGRAM) {
            for (int k = 0; k < q->sink_count; k++)
                if (!open_feed(r, bound, &q->ports[q->sinks[k].port], &q->sinks[k].out, q->sinks[k].kind,
                               q->sinks[k].mean, q->dims))
                    return false;
        } else if (is_reduction(in)) {
            const attr *a = &in->kernel.attr;
            if (!open_feed(r, bound, &in->kernel.in[0], &in->kernel.out, (reduce_kind)a->reduce.kind,
                           op_get(in->op)->run == run_mean, (uint32_t)a->reduce.dims))
                return false;
        }
    }
    return true;
}

static void close_feeds(blocks_run *r, bool deliver)
{
    for (int i = 0; i < r->feed_count; i++)
        reduce_feed_close(r->feeds[i], deliver);
}

/* The greatest number of values that only pass to sinks in one instruction, and that of feeds. */
static int passing_in(const blocks_run *r, int *feeds)
{
    int most = 0;
    for (int32_t i = r->region->first; i < r->region->end; i++) {
        const instruction *in = &r->plan->code[i];
        int sinks = in->kind == DO_PROGRAM ? in->elementwise.sink_count : 0;
        *feeds += in->kind == DO_PROGRAM ? sinks : 1;
        most = sinks > most ? sinks : most;
    }
    return most;
}

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* A desk for each thread: one table of the plan's buffers, moments, the locals, and what passes to sinks. */
static void lay_out(blocks_run *r, const binding *bound, char *memory, size_t table, size_t each)
{
    for (int i = 0; i < r->desk_count; i++) {
        char *at = memory + (size_t)i * each;
        r->desks[i] = (desk){ .bound = (binding *)at, .moments = at + table };
        r->desks[i].locals = r->desks[i].moments + 2 * MOST_MOMENTS * MOMENT_BYTES;
        r->desks[i].passing = r->desks[i].locals + rounded((size_t)r->region->scratch);
        memcpy(r->desks[i].bound, bound, (size_t)r->plan->buffer_count * sizeof *bound);
    }
}

int run_blocks(const plan *p, const plan_region *region, const binding *bound)
{
    blocks_run r = {
        .plan = p, .region = region, .block = block_rows(region->width), .task = task_rows(region->width)
    };
    int feeds = 0;
    size_t passing = (size_t)passing_in(&r, &feeds) * (size_t)(r.block * region->width * 8);
    size_t table = rounded((size_t)p->buffer_count * sizeof *bound);
    size_t each = table + 2 * MOST_MOMENTS * MOMENT_BYTES + rounded((size_t)region->scratch) + passing;
    r.desk_count = bk_get_num_threads();
    size_t head = rounded((size_t)r.desk_count * sizeof(desk) + (size_t)feeds * sizeof(reduce_feed *));
    char *memory = pool_take(head + (size_t)r.desk_count * each);
    if (!memory)
        return -1;
    r.desks = (desk *)memory;
    r.feeds = (reduce_feed **)(r.desks + r.desk_count);
    bool good = open_feeds(&r, bound);
    if (good) {
        lay_out(&r, bound, memory + head, table, each);
        threads_for((region->rows + r.task - 1) / r.task, 1, region->work_ns, run_tasks, &r);
    }
    close_feeds(&r, good);
    pool_give(memory, head + (size_t)r.desk_count * each);
    return good ? 0 : -1;
}
