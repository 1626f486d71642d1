/* arena.h: the memory of temporaries, while a plan runs.
 *
 * Plans run one after the other, so one stretch of memory serves all of them, large and small: its pages are there, and
 * its beginning is in the caches, whichever ran before. For the holder of the library's lock. */
#ifndef BK_GRAPH_ARENA_H
#define BK_GRAPH_ARENA_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL with the error set when memory is out. Both count as memory of the pool. */
char *arena_take(size_t bytes);
void arena_give(char *arena, size_t bytes);
/* More of it, for a part of the run, from who has taken it; NULL: there is none. What came last is given back first. */
char *arena_more(size_t bytes);
void arena_less(char *more, size_t bytes);
/* Whether so many bytes would have pages that nobody has touched; asked while no worker furnishes the arena. */
bool arena_wants(size_t bytes);
/* Touches pages for so many bytes, until *stop is set: for a worker, while nothing is taken or given. */
void arena_furnish(size_t bytes, const atomic_bool *stop);
/* Where the first so many bytes will be, for who touches their pages without changing a byte; NULL: nowhere. */
char *arena_stretch(size_t bytes);

#endif
