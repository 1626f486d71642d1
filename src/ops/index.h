/* index.h: reading and writing at indices.
 *
 * However x[...] is written, what is left after its views is one int64 tensor of checked indices into some dimensions
 * of x at once, row-major over their sizes (a single dimension may be counted from the end). `dims` packs which
 * dimensions those are and where the index's own dimensions stand in the result. */
#ifndef BK_OPS_INDEX_H
#define BK_OPS_INDEX_H
#include "core/tensor.h"

static inline int64_t index_dims(uint32_t bits, int at) { return (int64_t)((uint64_t)bits | (uint64_t)at << 32); }
static inline uint32_t index_dims_bits(int64_t dims) { return (uint32_t)dims; }
static inline int index_dims_at(int64_t dims) { return (int)(dims >> 32); }

/* x at the indices; op is OP_index_get or one of its names for the tape. The result has the layout `l`. */
bk_tensor *index_read(int op, const bk_tensor *x, const bk_tensor *index, int64_t dims, const layout *l);
/* The sizes of that result, row-major. */
const layout *index_result(const layout *x, const layout *index, int64_t dims);
/* x at the indices becomes (or is increased by) value, which has the result's sizes or is one number. */
int index_write(int op, bk_tensor *x, const bk_tensor *index, operand value, int64_t dims, bool add);

bk_tensor *gather_read(const bk_tensor *x, int dim, const bk_tensor *index);
int scatter_write(int op, bk_tensor *x, int dim, const bk_tensor *index, operand value, int mode);
/* The elements under the mask (of x's sizes), of which there are `count`; and the reverse. */
bk_tensor *mask_read(const bk_tensor *x, const bk_tensor *mask, int64_t count);
int mask_write(bk_tensor *x, const bk_tensor *mask, const bk_tensor *line);
/* x += value, where elements of x may share memory. */
int overlap_add(bk_tensor *x, const bk_tensor *value);

/* How many elements of a bool or uint8 tensor are set; -1 with the error set. Evaluates. */
int64_t mask_total(const bk_tensor *mask);
/* The smallest and the largest index, evaluated; 0 and -1 when there is none. */
int index_range(const bk_tensor *index, int64_t *low, int64_t *high);
/* The first index that is not in [low, high): what messages name. */
int64_t index_first_bad(const bk_tensor *index, int64_t low, int64_t high);
/* Any integer tensor as int64. */
bk_tensor *index_long(const bk_tensor *index);

/* x[items] = number (ops/subscript.c). */
int index_assign_number(bk_tensor *x, const bk_index *items, int count, operand number);
/* x.masked_fill_(mask, value), value a number or of no dimensions; the row-major places of what is set (ops/mask.c). */
int masked_fill_operand(bk_tensor *x, const bk_tensor *mask, operand value);
bk_tensor *masked_filled(const bk_tensor *x, const bk_tensor *mask, operand value); /* the same of a copy */
/* Numbers of any kind, of which a double has not all, at indices (ops/index.c). */
int index_fill_number(bk_tensor *x, int dim, const bk_tensor *index, operand number);
bk_tensor *index_filled(const bk_tensor *x, int dim, const bk_tensor *index, operand number);
int scatter_number(bk_tensor *x, int dim, const bk_tensor *index, operand number, const char *reduce);
bk_tensor *scattered(const bk_tensor *x, int dim, const bk_tensor *index, operand number, const char *reduce);
bk_tensor *mask_places(const bk_tensor *mask);

#endif
