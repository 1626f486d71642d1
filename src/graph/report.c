/* report.c: facts about plans, counted and told. */
#include "graph/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[] = {
#define FACT(name, text) text,
    PLAN_FACTS
#undef FACT
};

static const char *const names[] = {
#define FACT(name, text) #name,
    PLAN_FACTS
#undef FACT
};

static plan_report last;
static int64_t total[FACT_COUNT];
static int64_t plans;

static bool telling(void)
{
    static int asked = -1;
    if (asked < 0) {
        const char *text = getenv("BRISK_LOG");
        asked = text && strstr(text, "plan");
    }
    return asked;
}

void report_fact(plan_report *r, plan_fact fact, int32_t record, const char *op)
{
    r->count[fact]++;
    if (telling())
        fprintf(stderr, "brisk: plan %lld: record %d, %s, %s\n", (long long)plans, record, op, texts[fact]);
}

void report_code(int programs, int64_t pieces)
{
    if (telling())
        fprintf(stderr, "brisk: machine code for %d elementwise groups, %lld pieces of it new\n", programs,
                (long long)pieces);
}

plan_report report_last(void) { return last; }
int64_t report_total(plan_fact fact) { return total[fact]; }
const char *report_name(plan_fact fact) { return names[fact]; }

void report_done(const plan_report *r, int records, int instructions, int64_t arena_bytes)
{
    last = *r;
    for (int f = 0; f < FACT_COUNT; f++)
        total[f] += r->count[f];
    if (telling())
        fprintf(stderr, "brisk: plan %lld: %d records, %d instructions, %lld bytes of temporaries\n", (long long)plans,
                records, instructions, (long long)arena_bytes);
    plans++;
}
