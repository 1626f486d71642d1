/* scan.h: running sums, products and extremes along one dimension. */
#ifndef BK_CPU_SCAN_H
#define BK_CPU_SCAN_H
#include "cpu/view.h"

typedef enum scan_kind { SCAN_SUM, SCAN_PROD, SCAN_LOGSUMEXP, SCAN_MAX, SCAN_MIN, SCAN_KINDS } scan_kind;

/* dst has src's sizes. Floats accumulate in double, all others in int64; each result is rounded to dst's dtype. dst
 * may be src itself. */
void scan_run(scan_kind kind, const view *dst, const view *src, int dim);
/* SCAN_MAX and SCAN_MIN with the place of the extreme (int64); the last of equals, and NaN stays, as in PyTorch. */
void scan_extreme(bool max, const view *values, const view *indices, const view *src, int dim);

#endif
