/* settings.h: what a program may set once for all ops. */
#ifndef BK_OPS_SETTINGS_H
#define BK_OPS_SETTINGS_H
#include "brisk.h"

bk_dtype default_dtype(void);

#endif
