/* distance.h: how far apart two cores are. */
#ifndef BK_CORE_DISTANCE_H
#define BK_CORE_DISTANCE_H
#include <stdbool.h>

/* Nanoseconds for a message from this core to a worker's and back, the best of many; 0: there is no worker, or none
 * that answers. */
double distance_ns(void);

/* For who runs something, the library's lock held: asks a worker that spins now and then, and tells the pool whether it
 * is far. Among short runs few are worth a look at the clock. */
void distance_watch(bool is_long);

#endif
