/* shapes.h: shapes as the messages of layers write them. */
#ifndef BK_NN_SHAPES_H
#define BK_NN_SHAPES_H
#include <stdint.h>
#include <stdio.h>

enum { SHAPE_TEXT = 176 }; /* 8 sizes of 20 digits, separated */

/* "2, 3, 4" */
static inline void shape_text(char *out, int n, const int64_t *sizes)
{
    int used = 0;
    out[0] = 0;
    for (int i = 0; i < n && used < SHAPE_TEXT; i++)
        used += snprintf(out + used, (size_t)(SHAPE_TEXT - used), i ? ", %lld" : "%lld", (long long)sizes[i]);
}

#endif
