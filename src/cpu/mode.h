/* mode.h: the most frequent value of each lane. */
#ifndef BK_CPU_MODE_H
#define BK_CPU_MODE_H
#include "cpu/view.h"

/* values and indices have size 1 along dim; indices may be NULL. The least of equally frequent values, and the last of
 * its places. -1 when memory is out. */
int mode_run(const view *values, const view *indices, const view *src, int dim);

#endif
