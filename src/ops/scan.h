/* scan.h: scans for gradients: those run backwards too. */
#ifndef BK_OPS_SCAN_H
#define BK_OPS_SCAN_H
#include "core/tensor.h"
#include "cpu/scan.h"

/* A running sum, product or log-sum-exp along dim; `reverse` starts at the end. */
bk_tensor *scan_record(const bk_tensor *t, scan_kind kind, int dim, bool reverse);

#endif
