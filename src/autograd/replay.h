/* replay.h: backward passes that were recorded before are appended to the log, without running a rule. */
#ifndef BK_AUTOGRAD_REPLAY_H
#define BK_AUTOGRAD_REPLAY_H
#include "autograd/pass.h"

typedef enum replay_way {
    REPLAY_NONE,             /* run the rules */
    REPLAY_PERIODS,          /* run the rules of some periods of a tape that repeats itself (periods.h) */
    REPLAY_LEARN,            /* run the rules, and remember what they record */
    REPLAY_LEARN_BY_PERIODS, /* both */
    REPLAY_KNOWN             /* append what is remembered */
} replay_way;

/* How the steps of p before its leaves are to be done. The lock is held from here to the end of replay_learnt,
 * replay_run or periods_run, by one of which all but NONE are followed. */
replay_way replay_look(pass *p);
/* The rules of the steps before the first leaf have run, and the leaves have their gradients. good: none has failed. */
int replay_learnt(pass *p, bool good);
/* Records what those rules would, and gives the leaves their gradients. -1: out of memory. */
int replay_run(pass *p);
void replay_clear(void);
void replay_keep_layouts(void); /* the roots of a layout_sweep that a pass under way needs */
typedef struct replay_counts {
    int64_t passes, bytes; /* that are remembered */
    int64_t learnt, replayed;
} replay_counts;
replay_counts replay_count(void);

/* --- for who makes values that are not records ---------------------------------------------------------------------
 */

extern bool replay_learning;
void replay_saw(node *n, int op, int inputs, node *const *in);
void replay_spoil(void);

/* n was computed from in[] by an op at once, or shows their memory. */
static inline void replay_made(node *n, int op, int inputs, node *const *in)
{
    if (__builtin_expect(replay_learning, 0))
        replay_saw(n, op, inputs, in);
}
/* From here on it is seen whether values are made that are no records, or data is looked at; whether none were. */
void replay_watch(void);
bool replay_unwatch(void);
/* Something looks at data. */
static inline void replay_reads_data(void)
{
    if (__builtin_expect(replay_learning, 0))
        replay_spoil();
}

#endif
