/* test_faults_in_place.c: an evaluation that stops in its middle loses nothing and does nothing twice.
 *
 * The log below writes into its own inputs: x, w and v take over the memory of their old values, so a run from the
 * start would read what the first one left. Between the writes stand kernels that need memory to work in. The
 * evaluation is stopped by each failing allocation in turn, and by interrupts at any time; going on must give the bits
 * of an evaluation that nobody disturbed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/node.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "tap.h"

enum { ROWS = 96, COLS = 400, LONG = 9000, RESULTS = 16 };

static bk_tensor *mask, *places, *other, *along, *far, *ones;

static bk_tensor *filled(int ndim, const int64_t *sizes)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= sizes[d];
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)((i * 7919) % 1009 - 504) / 512;
    bk_tensor *t = bk_from_data(data, ndim, sizes, BK_FLOAT32);
    free(data);
    return t;
}

/* Records the log over fresh inputs; false when a record failed. */
static bool record(bk_tensor *x, bk_tensor *w, bk_tensor *v, bk_tensor **results)
{
    int n = 0;
    bool ok = bk_copy_(x, bk_mul_s(bk_add(x, other), 0.75)) == 0;
    results[n++] = bk_sort(x, 1, false, NULL);
    ok = ok && bk_copy_(x, bk_sub(x, bk_sum(bk_mul(x, x), 2, true))) == 0;
    results[n++] = bk_softmax(bk_transpose(bk_slice(x, 1, 0, COLS, 3), 0, 1), 0);
    ok = ok && bk_index_put_(x, (bk_tensor *[]){ places, along }, 2, ones, true) == 0;
    results[n++] = bk_cumsum(x, 0);
    ok = ok && bk_masked_scatter_(x, mask, bk_mul_s(other, 3)) == 0;
    results[n++] = bk_mode(x, 1, false, NULL);
    ok = ok && bk_copy_(w, bk_sub(w, bk_mul_s(bk_matmul(bk_transpose(x, 0, 1), x), 1e-3))) == 0;
    results[n++] = bk_median(x);
    bk_tensor *spread = bk_slice(far, 1, 0, 2 * LONG, 2);
    ok = ok && bk_copy_(v, bk_add(v, bk_mv(spread, bk_select(spread, 0, 1)))) == 0;
    results[n++] = bk_topk(x, 5, 1, true, true, NULL);
    ok = ok && bk_copy_(x, bk_tanh(bk_mul_s(x, 1.5))) == 0;
    results[n++] = bk_sum(bk_transpose(x, 0, 1), 0, false);
    results[n++] = bk_var(x, 2, 1, false);
    for (int i = 0; i < n; i++)
        ok = ok && results[i];
    results[n++] = bk_retain(x);
    results[n++] = bk_retain(w);
    results[n++] = bk_retain(v);
    results[n] = NULL;
    return ok;
}

typedef struct run {
    bk_tensor *x, *w, *v, *results[RESULTS];
} run;

static bool run_record(run *r)
{
    bk_scope_push();
    r->x = filled(2, (int64_t[]){ ROWS, COLS });
    r->w = filled(2, (int64_t[]){ COLS, COLS });
    r->v = filled(1, (int64_t[]){ 4 });
    bk_sync();
    return record(r->x, r->w, r->v, r->results);
}

static uint64_t hash_results(const run *r)
{
    uint64_t h = 1;
    for (int i = 0; r->results[i]; i++) {
        bk_tensor *dense = bk_contiguous(r->results[i]);
        const uint32_t *p = bk_data(dense);
        for (int64_t k = 0; p && k < bk_numel(dense); k++)
            h = (h ^ p[k]) * 0x9E3779B97F4A7C15ull;
    }
    return h;
}

static void run_end(run *r)
{
    for (int i = 0; r->results[i]; i++)
        if (r->results[i] == r->x || r->results[i] == r->w || r->results[i] == r->v)
            bk_release(r->results[i]);
    bk_scope_pop();
    bk_sync();
}

static void test_memory(uint64_t expected)
{
    int64_t nodes = nodes_live(), used = pool_bytes_in_use();
    int faults = 0, wrong = 0, begun = 0, odd = 0;
    for (int64_t n = 1; n < 10000; n++) {
        run r;
        cache_clear();
        run_record(&r);
        mem_fail_after(n);
        int status = bk_sync();
        bool met = mem_fail_pending() == 0;
        mem_fail_after(0);
        faults += met;
        begun += the_log.progress.plan != NULL;
        odd += status < 0 && bk_error_code() != BK_MEMORY_ERROR;
        bk_error_clear();
        wrong += hash_results(&r) != expected;
        run_end(&r);
        if (!met)
            break;
    }
    tap_ok(faults > 50, "%d allocations of an evaluation were made to fail", faults);
    tap_ok(begun > 5, "%d of them while its plan was under way", begun);
    tap_ok(odd == 0, "each failure says that memory is out");
    tap_ok(wrong == 0, "an evaluation that goes on after a failure gives the same bits (%d did not)", wrong);
    tap_ok(nodes_live() == nodes && pool_bytes_in_use() == used, "nothing is leaked");
}

static atomic_bool done;

static void *disturb(void *arg)
{
    (void)arg;
    for (useconds_t pause = 20; !atomic_load(&done); pause = pause % 900 + 37) {
        usleep(pause);
        bk_interrupt();
    }
    return NULL;
}

/* As a program that catches the interrupt and does something else: it records, reads a part, or tries again. */
static void test_interrupts(uint64_t expected)
{
    pthread_t thread;
    int stopped = 0, wrong = 0, refused = 0;
    pthread_create(&thread, NULL, disturb, NULL);
    for (int i = 0; i < 150; i++) {
        run r;
        run_record(&r);
        while (bk_sync() < 0) {
            stopped++;
            refused += bk_error_code() != BK_INTERRUPTED;
            if (i % 3 == 1 && stopped % 2)
                bk_release(bk_retain(bk_mul_s(r.results[1], 2)));
            else if (i % 3 == 2)
                bk_select(r.x, 0, 3);
        }
        for (uint64_t h = 0, tries = 0; tries < 1000; tries++) {
            bk_error_clear();
            h = hash_results(&r);
            if (bk_error_code() == BK_INTERRUPTED)
                continue; /* reading evaluates copies, which may be interrupted too */
            wrong += h != expected;
            break;
        }
        bk_error_clear();
        while (bk_sync() < 0)
            ;
        run_end(&r);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    bk_error_clear();
    tap_ok(stopped > 10, "evaluations were interrupted %d times", stopped);
    tap_ok(refused == 0, "they say so");
    tap_ok(wrong == 0, "an evaluation that goes on after interrupts gives the same bits (%d did not)", wrong);
}

/* What is read beside updates must not be what the stopped plan has dropped. */
static void test_views_meanwhile(void)
{
    int wrong = 0, stopped = 0;
    for (int64_t n = 1; n < 120; n++) {
        cache_clear();
        bk_scope_push();
        bk_tensor *x = filled(2, (int64_t[]){ ROWS, COLS });
        bk_tensor *first = bk_select(x, 0, 0), *second = bk_select(x, 0, 1);
        bk_sync();
        bk_copy_(second, bk_mul_s(second, 2));
        bk_copy_(first, bk_mul_s(first, 2));
        bk_tensor *sorted = bk_sort(x, 1, false, NULL);
        mem_fail_after(n);
        stopped += bk_sync() < 0 && the_log.progress.plan;
        mem_fail_after(0);
        bk_error_clear();
        bk_tensor *third = bk_select(x, 0, 2), *again = bk_select(x, 0, 1);
        bk_tensor *sum = bk_add(bk_sum(third, 0, false), bk_sum(again, 0, false));
        bk_tensor *plain = filled(2, (int64_t[]){ ROWS, COLS });
        bk_tensor *expected =
            bk_add(bk_sum(bk_select(plain, 0, 2), 0, false), bk_sum(bk_mul_s(bk_select(plain, 0, 1), 2), 0, false));
        wrong += !sorted || bk_item(sum) != bk_item(expected);
        bk_scope_pop();
    }
    tap_ok(stopped > 0 && wrong == 0, "views taken after a stop read the right values (%d stops)", stopped);
}

int main(void)
{
    other = filled(2, (int64_t[]){ ROWS, COLS });
    mask = bk_gt_s(other, 0.25);
    places = bk_to(bk_abs(bk_mul_s(bk_select(other, 0, 1), 90)), BK_INT64);
    along = bk_to(bk_abs(bk_mul_s(bk_select(other, 0, 2), 90)), BK_INT64);
    ones = bk_select(other, 0, 3);
    far = filled(2, (int64_t[]){ 4, 2 * LONG });
    bk_sync();
    run r;
    bool ok = run_record(&r);
    uint64_t expected = hash_results(&r);
    tap_ok(ok && !bk_error(), "the program works when nobody disturbs it%s%s", bk_error() ? ": " : "",
           bk_error() ? bk_error() : "");
    run_end(&r);
    test_memory(expected);
    test_views_meanwhile();
    test_interrupts(expected);
    return tap_done();
}
