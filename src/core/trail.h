/* trail.h: lists of nodes, and traversals that meet each node once.
 *
 * Invariant: what trail_meet took has NODE_MARK set until trail_unmark; the lock is held all that time, so no two
 * traversals see each other's marks. The list of what was met is the work list too: whoever looks at its nodes in order
 * and meets what they lead to has seen all when it reaches the end. */
#ifndef BK_CORE_TRAIL_H
#define BK_CORE_TRAIL_H
#include "core/node.h"

typedef struct trail {
    node **v;
    int count, capacity;
} trail;

bool trail_push(trail *l, node *n); /* false: no memory, the error is set */
bool trail_meet(trail *l, node *n); /* pushes it, unless it is NULL or was met before */
void trail_unmark(const trail *l);
void trail_free(trail *l);

#endif
