/* scope.c: the calling thread's stack of scopes.
 *
 * Invariant: entries above the last mark belong to the innermost scope; each entry owns one reference. A closed mark
 * stands for a callback's caller: what is made above it belongs to the callback, until it opens a scope of its own.
 * A thread that ends lets go of all of it. */
#include "core/scope.h"

#include <pthread.h>

#include "core/lock.h"
#include "core/memory.h"

static HOT_THREAD_LOCAL struct {
    bk_tensor **owned;
    int count, capacity;
    int *marks;
    int mark_capacity;
    int missed; /* scopes that memory could not be had for: their contents fall to the enclosing one */
} scopes;
HOT_THREAD_LOCAL int scope_depth;

enum { CLOSED = -1 };

static pthread_key_t at_end;
static bool has_key;

/* Of the thread that ends. What scopes it left open goes with it. */
static void free_stacks(void *arg)
{
    (void)arg;
    while (scopes.count)
        bk_release(scopes.owned[--scopes.count]);
    mem_free(scopes.owned);
    mem_free(scopes.marks);
    scopes.owned = NULL;
    scopes.marks = NULL;
    scopes.capacity = scopes.mark_capacity = scope_depth = 0;
}

static void make_key(void) { has_key = pthread_key_create(&at_end, free_stacks) == 0; }

/* Called where a stack is first made. Where there is no key to be had, its memory is not given back. */
static void free_at_end(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (has_key)
        pthread_setspecific(at_end, &scopes);
}

static bool is_open(int depth) { return depth > 0 && scopes.marks[depth - 1] != CLOSED; }

bk_tensor *scope_add_slow(bk_tensor *t)
{
    if (!is_open(scope_depth))
        return t;
    if (scopes.count == scopes.capacity) {
        int capacity = scopes.capacity ? scopes.capacity * 2 : 64;
        bk_tensor **owned = mem_resize(scopes.owned, (size_t)capacity * sizeof *owned);
        if (!owned) {
            bk_release(t);
            return NULL;
        }
        scopes.owned = owned;
        scopes.capacity = capacity;
    }
    scopes.owned[scopes.count++] = t;
    return t;
}

bk_tensor *scope_own(bk_tensor *t) { return is_open(scope_depth) ? bk_retain(t) : t; }

static void push_mark(int mark)
{
    if (scope_depth == scopes.mark_capacity) {
        int capacity = scopes.mark_capacity ? scopes.mark_capacity * 2 : 16;
        int *marks = mem_resize(scopes.marks, (size_t)capacity * sizeof *marks);
        if (!marks) {
            scopes.missed++;
            return;
        }
        if (!scopes.marks)
            free_at_end();
        scopes.marks = marks;
        scopes.mark_capacity = capacity;
    }
    scopes.marks[scope_depth++] = mark;
}

void bk_scope_push(void) { push_mark(scopes.count); }
void scope_close(void) { push_mark(CLOSED); }

static void release_above(int mark)
{
    while (scopes.count > mark)
        bk_release(scopes.owned[--scopes.count]);
    if (!scope_depth && scopes.capacity > 4096) { /* a thread that once had a huge scope does not keep its array */
        mem_free(scopes.owned);
        scopes.owned = NULL;
        scopes.capacity = 0;
    }
}

void bk_scope_pop(void)
{
    if (scopes.missed)
        scopes.missed--;
    else if (scope_depth && scopes.marks[--scope_depth] != CLOSED)
        release_above(scopes.marks[scope_depth]);
}

/* The entry moves out: searched from the top, where a scope's result nearly always is. */
bk_tensor *bk_scope_keep(bk_tensor *t)
{
    if (!t || !is_open(scope_depth))
        return t;
    int mark = scopes.marks[scope_depth - 1];
    for (int i = scopes.count - 1; i >= mark; i--) {
        if (scopes.owned[i] != t)
            continue;
        scopes.owned[i] = scopes.owned[--scopes.count];
        if (!is_open(scope_depth - 1))
            return t;
        /* Below the mark lies the enclosing scope's part: t goes there, the displaced entry to the end. */
        scopes.owned[scopes.count++] = t;
        bk_tensor *first = scopes.owned[mark];
        scopes.owned[mark] = t;
        scopes.owned[scopes.count - 1] = first;
        scopes.marks[scope_depth - 1]++;
        return t;
    }
    return t;
}

void scope_drop(bk_tensor *t)
{
    if (!t)
        return;
    int mark = is_open(scope_depth) ? scopes.marks[scope_depth - 1] : scopes.count;
    for (int i = scopes.count - 1; i >= mark; i--) {
        if (scopes.owned[i] != t)
            continue;
        scopes.owned[i] = scopes.owned[--scopes.count];
        break;
    }
    bk_release(t);
}

bk_tensor *scope_return(bk_tensor *t)
{
    t = bk_scope_keep(t);
    bk_scope_pop();
    return t;
}
