/* test_arena.c: memory that is there before it is needed: the arena of temporaries. */
#include <stdatomic.h>
#include <string.h>

#include "brisk.h"
#include "core/memory.h"
#include "graph/arena.h"
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

static void more_of_it(void)
{
    enum { BYTES = 5000, LARGE = 100 << 20 };
    const int64_t used = pool_bytes_in_use();
    char *whole = arena_take(BYTES), *one = arena_more(BYTES), *two = arena_more(BYTES), *much = arena_more(LARGE);
    memset(whole, 1, BYTES);
    memset(one, 2, BYTES);
    memset(two, 3, BYTES);
    tap_ok(one && two && much && whole[BYTES - 1] == 1 && one[0] == 2 && one[BYTES - 1] == 2 && two[0] == 3,
           "parts of a run have memory beside it");
    arena_less(much, LARGE);
    arena_less(two, BYTES);
    arena_less(one, BYTES);
    char *again = arena_more(BYTES);
    tap_ok(mem_apart() || again == one, "what is given back is taken again");
    arena_less(again, BYTES);
    arena_give(whole, BYTES);
    again = arena_more(BYTES);
    tap_ok(again && (mem_apart() || again != whole), "without an arena it is a block of the pool");
    arena_less(again, BYTES);
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

int main(void)
{
    one_arena();
    more_of_it();
    furnished();
    return tap_done();
}
