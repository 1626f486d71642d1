/* pages.h: fresh pages are touched by a worker before they are needed.
 *
 * A page that nobody has touched yet takes 1.2 us on a virtual machine, and the first call of a long program touches
 * thousands. While Python records and while the log is planned, other cores have nothing to do. All of this is for the
 * holder of the library's lock. */
#ifndef BK_GRAPH_PAGES_H
#define BK_GRAPH_PAGES_H
#include "graph/log.h"

enum { PAGES_RECORDS = 1024 }; /* of a log, from which on it is worth it */

/* The log, which begins as that of no plan, has come to log->look records: pages for planning it, as far as it may get,
 * and for what it will keep for a backward pass. */
void pages_for_planning(op_log *log);
/* The log is going to be planned: pages for running it. bits: what the flush has found out about each record. */
void pages_for_running(const op_log *log, const uint8_t *bits);
/* The worker stands still. */
void pages_stop(void);

#endif
