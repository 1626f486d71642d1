/* key_text.h: the records of a plan's key, as the plan keeps them.
 *
 * A plan is found by comparing all records of a log with those that it was made for. Most of a long log is one step of
 * a loop over and over, in which what is read, and where in a sequence, moves on by as much each time. Such runs are
 * kept as the differences of one period: memory that is never touched costs nothing, and there is half as much to be
 * read when keys are compared. */
#ifndef BK_GRAPH_KEY_TEXT_H
#define BK_GRAPH_KEY_TEXT_H
#include "graph/log.h"

typedef struct key_text key_text;

/* Owned (mem_free); NULL with the error set: out of memory. Uses the desk. */
key_text *key_text_new(const record_key *records, int count);
/* Whether it was made of just these; there are as many. */
bool key_text_is(const key_text *text, const record_key *records);
int64_t key_text_bytes(const key_text *text);

#endif
