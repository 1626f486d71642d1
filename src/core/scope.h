/* scope.h: scopes own what is made inside them.
 *
 * Each thread has a stack of handles; a scope is a mark in it. Composed ops open one for their temporaries. */
#ifndef BK_CORE_SCOPE_H
#define BK_CORE_SCOPE_H
#include "brisk.h"
#include "core/lock.h"

extern HOT_THREAD_LOCAL int scope_depth; /* how many scopes are there, closed ones among them */

/* Hands t to the innermost scope, if one is open. Returns t, or NULL (t released) when memory is out. */
bk_tensor *scope_add_slow(bk_tensor *t);
static inline bk_tensor *scope_add(bk_tensor *t) { return scope_depth ? scope_add_slow(t) : t; }
/* A reference of the caller's own to a handle just made, whether or not a scope has taken it. */
bk_tensor *scope_own(bk_tensor *t);
/* Lets go of a handle just made, whether or not a scope has taken it: what a failed op had begun. */
void scope_drop(bk_tensor *t);
/* Around a callback: what it makes is its own, whatever scope is open here. Ended by bk_scope_pop. */
void scope_close(void);
/* Ends the innermost scope; t, made inside it, passes to the enclosing scope or to the caller. */
bk_tensor *scope_return(bk_tensor *t);

#endif
