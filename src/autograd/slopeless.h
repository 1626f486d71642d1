/* slopeless.h: functions whose results do not follow their arguments, or not in a way that anybody has written down.
 *
 * PyTorch has them on its tape all the same: what they give requires gradients, and a backward that comes there is
 * refused, or finds zeros. They are functions of C here (function.h), a row each of the table in slopeless.c; nothing
 * is recorded where no argument is on the tape. */
#ifndef BK_AUTOGRAD_SLOPELESS_H
#define BK_AUTOGRAD_SLOPELESS_H
#include "brisk.h"
#include "core/tensor.h"

/* t (or NULL), which the function has computed of these arguments without a tape: itself, with a place on it where one
 * of them has one. NULL with the error set: memory is out, and t is released. */
bk_tensor *slopeless_as(bk_tensor *t, const char *function, const bk_tensor *const *arguments, int count);
/* The same of several results, some of which may be NULL; same[i]: it is an argument that was written to, and whose
 * place is still the one before the write. Or NULL: none is. */
int slopeless_record(const char *function, bk_tensor *const *arguments, int count, bk_tensor **results,
                     const bool *same, int result_count);
/* The same of a function that has written to its first argument. Where it has no row, its gradients are zeros, and
 * their function has this name. */
int slopeless_written(const char *function, const char *name, bk_tensor *const *arguments, int count);

#endif
