/* softmax.h: exponentials along one dimension over their sum, or the logarithms of these. */
#ifndef BK_CPU_SOFTMAX_H
#define BK_CPU_SOFTMAX_H
#include "cpu/view.h"

/* dst and src have equal sizes and one float dtype. -1 when memory is out. */
int softmax_run(const view *dst, const view *src, int dim, bool log);

#endif
