/* composed.h: functions of several records that look like one on the tape (composed.def).
 *
 * Gradients go through the records as through any others. Only who looks at the tape is shown one function: its name,
 * and the places of its arguments, which a walk finds from the last record through all that were made since the
 * function was called. */
#ifndef BK_AUTOGRAD_COMPOSED_H
#define BK_AUTOGRAD_COMPOSED_H
#include "core/tensor.h"

typedef struct composed {
    const char *function, *name, *arguments;
} composed;
extern const composed composed_rows[];
extern const int composed_count;

/* The first row of a function; -1: it has none. */
int composed_find(const char *function);
/* t is what a call of row `number` gave, which began when next_sequence was `start`; reached: a bit for each of the
 * row's arguments that requires gradients. */
void composed_mark(bk_tensor *t, int number, uint64_t start, uint8_t reached);
/* The same inside of another function: t, or NULL, was given for these arguments of the row, which *row remembers. */
bk_tensor *composed_as(bk_tensor *t, const char *function, int *row, uint64_t start, const bk_tensor *const *arguments,
                       int count);
/* The name that a place has from its row; NULL: none. */
const char *composed_name(const node *place);
/* Where a place that has a row leads to, in the order of the arguments; NULL where no gradient goes. The count, or -1
 * when memory is out; *out is the caller's to free. */
int composed_edges(const node *place, node ***out);
/* Functions that PyTorch has between the result and the arguments, and that are inside of ours, are shown as steps of
 * the place: 1 for what all arguments go through, from COMPOSED_OF_ARGUMENT on for what one does; 0: none of these. */
enum { COMPOSED_ALL = 1, COMPOSED_OF_ARGUMENT = 2 };
int composed_inner(const node *place);
int composed_around(const node *place, int argument);
/* The name of such a step. */
void composed_step_name(const node *place, int step, char name[static 64]);

#endif
