/* rewrites.h: what planning and recording do beyond the obvious, and that each of it can be left out.
 *
 * A program gives the same values with and without each of these, within rounding: tests leave them out one by one, and
 * whoever looks for a fault can. BRISK_PLAN_WITHOUT=teams,sums leaves out what it names; other names are passed over.
 * What is done is part of a plan's key: it may change at any time. */
#ifndef BK_GRAPH_REWRITES_H
#define BK_GRAPH_REWRITES_H
#include <stdbool.h>
#include <stdint.h>

/* REWRITE(name): the name as users write it. */
#define REWRITES                                                                                                       \
    REWRITE(numbers)   /* what makes one number of a step, after the steps (rewrite_numbers.c) */                      \
    REWRITE(factors)   /* products with a common factor that are added up, as one (rewrite_factors.c) */               \
    REWRITE(joins)     /* products that share a factor, as one (rewrite.c) */                                          \
    REWRITE(added)     /* few products that are added up, as one (rewrite.c) */                                        \
    REWRITE(narrow)    /* products with the columns that are read (rewrite.c) */                                       \
    REWRITE(rows)      /* rows of many products with one weight, as one (rewrite_rows.c) */                            \
    REWRITE(lookups)   /* products of looked-up rows, in the table (rewrite_lookups.c) */                              \
    REWRITE(parts)     /* what is read part by part, so computed (rewrite_parts.c) */                                  \
    REWRITE(equal)     /* records that compute the same, once (equal.c) */                                             \
    REWRITE(sums)      /* many products that are added up, by stretches (sums.c) */                                    \
    REWRITE(fills)     /* zeros that nobody sees, not at all (fills.c) */                                              \
    REWRITE(placement) /* values in the place that they will be written to (homes.c, plan.c) */                        \
    REWRITE(orders)    /* values in the order of the copy that reads them (orders.c) */                                \
    REWRITE(late)      /* a number in every element by the group that reads it (plan.c) */                             \
    REWRITE(groups)    /* elementwise records together (plan.c) */                                                     \
    REWRITE(streams)   /* reductions as their values are made (plan.c) */                                              \
    REWRITE(reuse)     /* results over operands that end there (plan.c) */                                             \
    REWRITE(epilogues) /* what follows a product, as its rows are finished (plan.c) */                                 \
    REWRITE(addends)   /* what is added to a product, by its kernel (builder.c) */                                     \
    REWRITE(packing)   /* packed factors shared and kept (packing.c) */                                                \
    REWRITE(regions)   /* each core takes its rows through a stretch (regions.c) */                                    \
    REWRITE(shares)    /* sums over the rows of a region by whoever has these rows (regions.c) */                      \
    REWRITE(asks)      /* rows of coming steps asked for, where they are far (asks.c) */                               \
    REWRITE(blocks)    /* stretches block of rows by block of rows (blocks.c) */                                       \
    REWRITE(teams)     /* few rows by all cores together (teams.c) */                                                  \
    REWRITE(repeats)   /* recording steps of layers and of their tapes by those before (repeat.c, periods.c) */        \
    REWRITE(replay)    /* recording a backward pass by an earlier one of its form (replay.c) */                        \
    REWRITE(ahead)     /* the first steps of a plan while its log is recorded (ahead.c) */

enum {
#define REWRITE(name) REWRITE_NUMBER_##name,
    REWRITES
#undef REWRITE
        REWRITE_COUNT
};
enum {
#define REWRITE(name) REWRITE_##name = 1 << REWRITE_NUMBER_##name,
    REWRITES
#undef REWRITE
        REWRITE_ALL = (1 << REWRITE_COUNT) -
    1
};

extern uint32_t rewrites_done; /* a set of these */

/* The name of rewrite k < REWRITE_COUNT. */
const char *rewrite_name(int k);
/* All but those named, with commas between; *unknown: the first name that is none, or NULL. */
uint32_t rewrites_without(const char *names, const char **unknown);

#endif
