/* distance.h: how far apart two cores are. */
#ifndef BK_CORE_DISTANCE_H
#define BK_CORE_DISTANCE_H

/* Nanoseconds for a message from this core to a worker's and back, the best of many; 0: there is no worker, or none
 * that answers. */
double distance_ns(void);

/* For who has just run something, the library's lock held: asks a worker that spins now and then, and tells the pool
 * whether it is far. */
void distance_watch(void);

#endif
