/* desk.h: the memory that a plan is made in.
 *
 * Planning takes a dozen arrays as long as the log, and gives all of them back when the plan is made. Fresh pages cost
 * more than the planning itself, so the desk stays where it is, as large as the last plans needed it. There is one:
 * only who has the library's lock makes plans. */
#ifndef BK_GRAPH_DESK_H
#define BK_GRAPH_DESK_H
#include <stddef.h>

/* NULL with the error set when memory is out. All of it goes with the next desk_clear. */
void *desk_take(size_t bytes);
void *desk_take_zero(size_t bytes);
/* The same contents, `had` bytes, in a larger piece; the old one is not used again before the next desk_clear. */
void *desk_grow(void *p, size_t had, size_t bytes);
void desk_clear(void);

#endif
