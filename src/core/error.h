/* error.h: one error convention.
 *
 * A function that fails sets the calling thread's error and returns NULL or -1. The first error stays until it is
 * cleared or until a call that starts anew succeeds in setting another, so a chain of NULLs reports its cause. */
#ifndef BK_CORE_ERROR_H
#define BK_CORE_ERROR_H
#include "brisk.h"

/* Both set the error; error_null returns NULL and error_int -1, so that they stand in a return statement. */
void *error_null(bk_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
int error_int(bk_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *error_memory(void); /* out of memory: NULL */

#endif
