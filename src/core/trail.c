/* trail.c: lists of nodes grow by doubling; marks are one bit of a node. */
#include "core/trail.h"
#include "core/memory.h"

bool trail_push(trail *l, node *n)
{
    if (l->count == l->capacity) {
        int capacity = l->capacity ? 2 * l->capacity : 32;
        node **v = mem_resize(l->v, (size_t)capacity * sizeof *v);
        if (!v)
            return false;
        l->v = v;
        l->capacity = capacity;
    }
    l->v[l->count++] = n;
    return true;
}

bool trail_meet(trail *l, node *n)
{
    if (!n || n->flags & NODE_MARK)
        return true;
    if (!trail_push(l, n))
        return false;
    n->flags |= NODE_MARK;
    return true;
}

void trail_unmark(const trail *l)
{
    for (int i = 0; i < l->count; i++)
        l->v[i]->flags &= (uint8_t)~NODE_MARK;
}

void trail_free(trail *l) { mem_free(l->v); }
