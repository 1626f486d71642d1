/* periods.h: the rules of a tape that repeats itself run for a few of its periods; the others follow from these. */
#ifndef BK_AUTOGRAD_PERIODS_H
#define BK_AUTOGRAD_PERIODS_H
#include "autograd/pass.h"

/* Whether parts of the tape that tape_describe has described repeat themselves. The lock is held from here to the end
 * of periods_run. */
bool periods_find(const pass *p);
/* Takes the steps up to `end`, the first leaf's. */
int periods_run(pass *p, int end);
int64_t periods_followed(void); /* how many there were so far, beyond those that rules ran for: for tests */

#endif
