/* report.h: what planning did and what it refused, counted and, on request, told line by line.
 *
 * BRISK_LOG=plan writes a line to stderr for each fact when a plan is made. Tests read the counts. */
#ifndef BK_GRAPH_REPORT_H
#define BK_GRAPH_REPORT_H
#include <stdbool.h>
#include <stdint.h>

/* FACT(name, text) */
#define PLAN_FACTS                                                                                                     \
    FACT(GROUP, "begins an elementwise group")                                                                         \
    FACT(REDUCED, "is reduced as its values are made")                                                                 \
    FACT(REDUCED_APART, "is a reduction of its own: its values do not come in the order it needs")                     \
    FACT(REDUCED_MANY, "is a reduction of its own: its group has reductions over other dimensions, or too many")       \
    FACT(REDUCED_SMALL, "is a small reduction of its own: its values may be part of a stretch of rows")                \
    FACT(ALIKE, "runs the program of an earlier group, which is alike")                                                \
    FACT(EPILOGUE, "is computed as its product's rows are finished")                                                   \
    FACT(ADDEND, "is added by its product's kernel")                                                                   \
    FACT(PLACED, "is computed where it is to be written")                                                              \
    FACT(ORDERED, "is made in the order of its copy from the start")                                                   \
    FACT(COPIED, "is written by a copy: it exists elsewhere, or its place is in use when it is made")                  \
    FACT(OLD_HELD, "copies the old value first: somebody still needs it")                                              \
    FACT(REUSED, "takes over the memory of an operand that ends there")                                                \
    FACT(SHARED, "is what an earlier record computes")                                                                 \
    FACT(PACKED, "reads a factor that an earlier product has packed")                                                  \
    FACT(PUT_OFF, "is one number, which no step waits for: it is computed after them")                                 \
    FACT(FACTORED, "is a sum of products with a common factor: one product, of the sum of the others")                 \
    FACT(JOINED, "is computed with others that share its first factor, as one product")                                \
    FACT(ADDED, "is a sum of products that are one product over all their inner dimensions")                           \
    FACT(NARROWED, "is a product of which only the columns that are read are computed")                                \
    FACT(ROWS, "is computed for the rows of many products with its weight at once")                                    \
    FACT(LOOKED_UP, "is computed once for each row of the table that its rows were looked up in")                      \
    FACT(PARTS, "is computed part by part, by those who read it")                                                      \
    FACT(SUMMED, "is a sum of products, which are added up many at a time")                                            \
    FACT(REGION, "begins a stretch that each core takes its rows through")                                             \
    FACT(SHARED_SUM, "adds up the rows of its stretch, each core its own")                                             \
    FACT(BLOCKS, "begins a stretch that runs block of rows by block of rows")                                          \
    FACT(TEAM, "begins a stretch of few rows that the cores go through together, each with its columns")               \
    FACT(UNFILLED, "is zeros that are written over before anyone reads them")

typedef enum plan_fact {
#define FACT(name, text) FACT_##name,
    PLAN_FACTS
#undef FACT
        FACT_COUNT
} plan_fact;

typedef struct plan_report {
    int32_t count[FACT_COUNT];
} plan_report;

/* Counts a fact about a record; writes its line if that was asked for. */
void report_fact(plan_report *r, plan_fact fact, int32_t record, const char *op);
/* The last plan that was made, hits of the cache aside. */
plan_report report_last(void);
/* How often a fact was found in all plans so far, and the name it has in the table. */
int64_t report_total(plan_fact fact);
const char *report_name(plan_fact fact);
/* Called when the programs of a plan have got machine code: some of them, and how many pieces had to be made. */
void report_code(int programs, int64_t pieces);
/* Called when planning is through. */
void report_done(const plan_report *r, int records, int instructions, int64_t arena_bytes);

#endif
