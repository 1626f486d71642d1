/* lines.h: which line of the user's asked for a record. */
#ifndef BK_LINES_H
#define BK_LINES_H
#include <Python.h>

#include "core/node.h"

/* From here on every record notes the running code object and instruction. */
void lines_init(void);
/* From here on (or no longer) the code objects of records are kept alive, so that their lines can be told. */
int lines_keep(bool on);
/* (file, line, function) of a record, None where it is not known. */
PyObject *lines_describe(const source_line *line);
/* The same for a record whose code object nobody keeps, looked for among the frames and functions there are: for
 * errors, which may take their time. NULL without an exception where it is not known. */
PyObject *lines_find(const source_line *line);

#endif
