/* error.c: the calling thread's last error.
 *
 * Invariant: kind == BK_OK exactly when there is no message. The message lives in the thread, needs no allocation
 * and so can also say that memory is out. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 1024 }; /* the longest: a shape mismatch with two 8-dimensional shapes, about 400 */

static _Thread_local struct {
    bk_error_kind kind;
    source_line line;
    bool muted;
    char message[MESSAGE_BYTES];
} last;

static void set(bk_error_kind kind, const char *format, va_list args)
{
    if (last.muted)
        return;
    last.kind = kind;
    last.line = (source_line){ 0 };
    vsnprintf(last.message, sizeof last.message, format, args);
}

void *error_null(bk_error_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(kind, format, args);
    va_end(args);
    return NULL;
}

int error_int(bk_error_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(kind, format, args);
    va_end(args);
    return -1;
}

void *error_memory(void) { return error_null(BK_MEMORY_ERROR, "brisk: out of memory"); }

int error_about(source_line line)
{
    if (!last.muted)
        last.line = line;
    return -1;
}

void error_mute(bool on) { last.muted = on; }

source_line error_line(void) { return last.line; }

const char *bk_error(void) { return last.kind == BK_OK ? NULL : last.message; }

bk_error_kind bk_error_code(void) { return last.kind; }

void bk_error_clear(void) { last.kind = BK_OK; }
