/* lines.c: the running frame's code object and instruction, as cheaply as the interpreter lets us.
 *
 * On CPython 3.11 the frame is read where it lies: 2 ns. The frame API of other versions makes an object for every
 * call, which would cost more than recording the op, so there records carry no line. */
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include "internal/pycore_frame.h"
#define HAVE_FRAMES 1
#endif

#include "core/node.h"
#include "lines.h"

#ifdef HAVE_FRAMES
static void note_line(source_line *line)
{
    PyThreadState *thread = _PyThreadState_UncheckedGet();
    _PyInterpreterFrame *frame = thread && thread->cframe ? thread->cframe->current_frame : NULL;
    if (!frame)
        return;
    line->code = frame->f_code;
    line->at = (int32_t)((const char *)frame->prev_instr - (const char *)frame->f_code);
}
#endif

void lines_init(void)
{
#ifdef HAVE_FRAMES
    line_hook = note_line;
#endif
}
