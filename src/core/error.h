/* error.h: one error convention.
 *
 * A function that fails sets the calling thread's error and returns NULL or -1. The first error stays until it is
 * cleared or until a call that starts anew succeeds in setting another, so a chain of NULLs reports its cause. */
#ifndef BK_CORE_ERROR_H
#define BK_CORE_ERROR_H
#include "brisk.h"

/* Where a record comes from. */
typedef struct source_line {
    const void *code; /* CPython's code object, borrowed by address; NULL from C */
    int32_t at;       /* instruction within it */
} source_line;

/* Both set the error; error_null returns NULL and error_int -1, so that they stand in a return statement. */
void *error_null(bk_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
int error_int(bk_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *error_memory(void); /* out of memory: NULL */
/* Says of the error just set which record it is about: it may come long after that was recorded. Returns -1. */
int error_about(source_line line);
/* While muted the calling thread's error stays as it is: for who can do without what fails. */
void error_mute(bool on);
/* What was said so; code is NULL where nothing was. */
source_line error_line(void);

#endif
