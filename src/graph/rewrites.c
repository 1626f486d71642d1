/* rewrites.c: the names of rewrites, and which are done. */
#include "graph/rewrites.h"

#include <stdlib.h>
#include <string.h>

uint32_t rewrites_done = REWRITE_ALL;

static const char *const names[REWRITE_COUNT] = {
#define REWRITE(name) #name,
    REWRITES
#undef REWRITE
};

const char *rewrite_name(int k) { return names[k]; }

/* The rewrite that `length` characters of text name; -1: none. */
static int find(const char *text, size_t length)
{
    for (int k = 0; k < REWRITE_COUNT; k++)
        if (strlen(names[k]) == length && !memcmp(names[k], text, length))
            return k;
    return -1;
}

uint32_t rewrites_without(const char *text, const char **unknown)
{
    uint32_t done = REWRITE_ALL;
    *unknown = NULL;
    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        int k = length ? find(text, length) : -1;
        if (k >= 0)
            done &= ~(1u << k);
        else if (length && !*unknown)
            *unknown = text;
    }
    return done;
}

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("BRISK_PLAN_WITHOUT"), *unknown;
    if (text)
        rewrites_done = rewrites_without(text, &unknown);
}
