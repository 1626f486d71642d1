/* desk.h: the memory that a plan is made in.
 *
 * Planning takes a dozen arrays as long as the log, and gives all of them back when the plan is made. Fresh pages cost
 * more than the planning itself, so the desk stays where it is, as large as the largest plan so far needed it; and
 * where a log is a new one, a worker sees to its pages while the log is still recorded. There is one desk: only who has
 * the library's lock makes plans. */
#ifndef BK_GRAPH_DESK_H
#define BK_GRAPH_DESK_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL with the error set when memory is out. All of it goes with the next desk_clear. */
void *desk_take(size_t bytes);
void *desk_take_zero(size_t bytes);
void *desk_try(size_t bytes); /* for who can do without: NULL leaves the error as it is */
/* The same contents, `had` bytes, in a larger piece; the old one is not used again before the next desk_clear. */
void *desk_grow(void *p, size_t had, size_t bytes);
void desk_clear(void);

/* What was taken since the mark is not used any more, and later pieces may lie there. */
size_t desk_mark(void);
void desk_release(size_t mark);

/* Whether planning so many records will touch pages for the first time; asked while no worker furnishes the desk. */
bool desk_wants(int records);
/* Touches them, until *stop is set: for a worker, while nobody plans. */
void desk_furnish(int records, const atomic_bool *stop);
/* Where planning so many records will begin, for who touches its pages without changing a byte; NULL: nowhere. */
char *desk_stretch(int records, size_t *bytes);

#endif
