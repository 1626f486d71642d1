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
/* How far a log has been compared: records, the run that the next one is in, and where that begins. All 0 at first. */
typedef struct key_place {
    int records, run, first;
    size_t words;
} key_place;
/* Whether records from the place on, up to `end`, are those of the text but for their readers; there are as many. */
bool key_text_goes_on(const key_text *text, key_place *at, const record_key *records, int end);
int64_t key_text_bytes(const key_text *text);

#endif
