/* test_pages.c: memory that is there before it is needed: the arena of temporaries, and how much of it a log will take.
 */
#include <stdatomic.h>
#include <string.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/threads.h"
#include "graph/arena.h"
#include "graph/log.h"
#include "graph/pages.h"
#include "graph/plan.h"
#include "tap.h"

static void one_arena(void)
{
    enum { SMALL = 1000, LARGE = 100 << 20 };
    const int64_t used = pool_bytes_in_use();
    char *first = arena_take(SMALL);
    tap_ok(first && (uintptr_t)first % 64 == 0 && pool_bytes_in_use() >= used + SMALL,
           "an arena counts as memory in use");
    char *second = arena_take(SMALL);
    tap_ok(second && (second + SMALL <= first || first + SMALL <= second), "who comes while it is taken has another");
    memset(first, 1, SMALL);
    memset(second, 2, SMALL);
    tap_ok(first[SMALL - 1] == 1 && second[0] == 2, "neither writes to the other's");
    arena_give(first, SMALL);
    char *large = arena_take(LARGE);
    tap_ok(large && (mem_apart() || large != first), "more than it holds is a block of the pool");
    arena_give(large, LARGE);
    arena_give(second, SMALL);
    char *again = arena_take(SMALL + 1);
    tap_ok(mem_apart() || again == first, "the next plan has the same memory");
    arena_give(again, SMALL + 1);
    tap_ok(pool_bytes_in_use() == used, "and all of it is given back");
    pool_trim();
}

static void furnished(void)
{
    enum { BYTES = 3 << 20 };
    atomic_bool stop = true;
    const bool wanted = arena_wants(BYTES);
    arena_furnish(BYTES, &stop);
    tap_ok(arena_wants(BYTES) == wanted, "a worker that is told to stop touches no more pages");
    stop = false;
    char *taken = arena_take(64);
    tap_ok(mem_apart() || !arena_wants(BYTES), "nobody touches what is taken");
    arena_give(taken, 64);
    arena_furnish(BYTES, &stop);
    tap_ok(mem_apart() || !arena_wants(BYTES), "pages that a worker has touched are touched once");
}

/* --- how much a log will take ------------------------------------------------------------------------------------- */

enum { N = 1000 };

static void takes(double values, const uint8_t *bits, const char *what)
{
    const double found = (double)pages_of_temporaries(&the_log, bits) / (N * sizeof(float));
    tap_ok(found == values, "%s: %g values at a time (%g)", what, values, found);
}

static const uint8_t *all_needed(int kept)
{
    static uint8_t bits[64];
    memset(bits, RECORD_NEEDED, sizeof bits);
    if (kept >= 0)
        bits[kept] |= RECORD_KEPT;
    return bits;
}

static void expects(void)
{
    bk_scope_push();
    bk_tensor *x = bk_ones(1, (int64_t[]){ N }, BK_FLOAT32), *h;
    bk_sync();

    h = bk_mul(bk_mul(bk_mul(bk_add(x, x), x), x), x);
    takes(2, all_needed(-1), "of a chain, an operation's operand and result");
    takes(2, all_needed(the_log.count - 1), "what is kept is none of them, the others are");
    bk_sync();

    bk_tensor *early = bk_add(x, x);
    bk_tensor *view = bk_reshape(early, 2, (int64_t[]){ 10, N / 10 });
    h = bk_mul(bk_mul(bk_mul(bk_mul(x, x), x), x), x);
    h = bk_mul(h, bk_reshape(view, 1, (int64_t[]){ N }));
    takes(3, all_needed(the_log.count - 1), "what a view shows is alive as long as that");
    bk_sync();

    bk_tensor *parts[4] = { x };
    for (int k = 0; k < 4; k++)
        parts[k] = bk_tanh(bk_mul_s(k ? parts[k - 1] : x, 2));
    h = bk_mul_s(bk_stack(parts, 4, 0), 3);
    takes(4 + 4, all_needed(-1), "what goes into a stack is made there: the stack, and what is made of it");
    bk_sync();

    for (int k = 0; k < 4; k++)
        parts[k] = bk_tanh(bk_mul_s(k ? parts[k - 1] : x, 2));
    h = bk_stack(parts, 4, 0);
    takes(1, all_needed(the_log.count - 1), "of a stack that is kept, only what its parts are made of");
    bk_sync();
    (void)h;
    bk_scope_pop();
}

int main(void)
{
    one_arena();
    furnished();
    expects();
    return tap_done();
}
