/* tape_keys.h: the form of a tape: what its places are, and how they and the values they hold hang together.
 *
 * Values are numbered: the places by their steps, the others as they are met. All that a rule can look at is in the
 * keys: tapes with the same keys record the same. */
#ifndef BK_AUTOGRAD_TAPE_KEYS_H
#define BK_AUTOGRAD_TAPE_KEYS_H
#include "autograd/pass.h"

/* A place of the tape, or a value that one of them holds. */
typedef struct tape_key {
    uint16_t op;
    uint8_t dtype;
    uint8_t state;
    uint32_t layout;
    int32_t in[MAX_INPUTS], edge[MAX_INPUTS]; /* numbers; -1: none */
    attr attr;
} tape_key;

/* The values of the pass that is looked at, by number. Grows with the longest tape and stays. Who gets no memory here
 * can do without. */
typedef struct tape_values {
    node **nodes;
    tape_key *keys;
    int count, capacity;
    uint64_t hash;
} tape_values;
extern tape_values tape;

/* Numbers the values of the tape and describes them. False: this tape is not for us: code of the user runs before its
 * leaves, somebody asks what a place there gets, it is very long, or there is no memory. */
bool tape_describe(const pass *p);
uint64_t tape_hash(const tape_key *keys, int count);
bool tape_reserve(int count); /* memory for so many values */
/* Whether the gradient that comes to a step will be that of a leaf, as it stands. */
bool step_takes(const pass *p, const step *s);

static inline int tape_number(const node *n)
{
    bool known = n->visit >= 0 && n->visit < tape.count && tape.nodes[n->visit] == n;
    return known ? n->visit : -1;
}

/* There is room: see tape_reserve. */
static inline int tape_add(node *n)
{
    n->visit = tape.count;
    tape.nodes[tape.count] = n;
    return tape.count++;
}

#endif
